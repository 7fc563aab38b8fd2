package kubebuilder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocument checks that each line that docs/testing-kubebuilder.md shows of a step is in a file
// of that step, in the same order.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(), "docs", "testing-kubebuilder.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{} // number of blocks of each step
	for _, section := range strings.Split(string(data), "\n## ")[1:] {
		number, _, _ := strings.Cut(section, ".")
		var files []string
		paths, err := filepath.Glob(filepath.Join("steps", number+"-*.diff"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			diff, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, string(diff))
		}
		for _, block := range blocks(section) {
			shown[number]++
			if missing := absent(block, strings.Split(strings.Join(files, "\n"), "\n")); missing != "" {
				t.Errorf("step %s shows a line that is not, or not there, in %v:\n%s", number, paths, missing)
			}
		}
	}
	for number, n := range map[string]int{"2": 1, "3": 2, "4": 2} {
		if shown[number] < n {
			t.Errorf("step %s shows %d of its changes, not %d", number, shown[number], n)
		}
	}
}

// blocks returns the lines of each fenced block, as lines of a diff.
func blocks(text string) (all [][]string) {
	parts := strings.Split(text, "\n```")
	for i := 1; i < len(parts); i += 2 {
		language, block, _ := strings.Cut(parts[i], "\n")
		lines := strings.Split(block, "\n")
		if language == "go" {
			for i := range lines {
				lines[i] = "+" + lines[i]
			}
		}
		all = append(all, lines)
	}
	return all
}

// absent returns the first line that does not follow the one before it in a text. It skips lines
// that mark omissions.
func absent(lines, text []string) string {
	at := 0
	for _, line := range lines {
		if strings.HasSuffix(line, "// ...") {
			continue
		}
		for ; at < len(text) && text[at] != line; at++ {
		}
		if at == len(text) {
			return line
		}
		at++
	}
	return ""
}
