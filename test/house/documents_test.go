package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	inline = regexp.MustCompile("`[^`\n]+`")
	code   = regexp.MustCompile("(?ms:^```.*?^```$)|`[^`\n]+`|(?m:^    .*$)")
)

// TestLinks follows the links of all documents to files of the module, and to their headings.
func TestLinks(t *testing.T) {
	documents := markdown(t)
	if len(documents) < 20 {
		t.Fatalf("only %d documents were found: the test looks at the wrong place", len(documents))
	}
	for name, text := range documents {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, match[1])
				continue
			}
			if other, ok := documents[file]; ok && anchor != "" && !slices.Contains(anchors(other), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", name, match[1], file)
			}
		}
	}
}

// markdown returns the documents of the module by their paths.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	documents := map[string]string{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == ".git"):
			return fs.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		documents[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are the names of a document's headings in links, as GitHub makes them.
func anchors(text string) (names []string) {
	for line := range strings.Lines(text) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// TestReadmesShowTheSame compares the commands, links and figures of the README with those of its
// Chinese version.
func TestReadmesShowTheSame(t *testing.T) {
	english, chinese := shown(t, "README.md"), shown(t, "README.zh-CN.md")
	if len(english) < 20 {
		t.Fatalf("only %d commands and links were found", len(english))
	}
	for _, one := range english {
		if !slices.Contains(chinese, one) {
			t.Errorf("README.zh-CN.md lacks %s", one)
		}
	}
	for _, one := range chinese {
		if !slices.Contains(english, one) {
			t.Errorf("README.md lacks %s", one)
		}
	}
}

// shown returns the lines of code of a document, its code within lines, and what it links to.
func shown(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			all = append(all, strings.TrimSpace(code))
			continue
		}
		all = append(all, inline.FindAllString(line, -1)...)
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			if !strings.HasPrefix(match[1], "README") {
				all = append(all, match[1])
			}
		}
	}
	return all
}
