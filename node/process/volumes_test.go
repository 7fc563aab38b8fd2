//go:build linux || darwin

package process

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPayload replaces the files of a volume, all at once.
func TestPayload(t *testing.T) {
	dir := t.TempDir()
	root := rootOf(t, dir)
	make := func(files map[string]string) payload {
		p := payload{}
		for path, text := range files {
			if err := p.add(path, []byte(text), nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	check := func(files map[string]string, names ...string) {
		t.Helper()
		for path, text := range files {
			if data, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(data) != text {
				t.Errorf("%s: %q, %v, want %q", path, data, err, text)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var visible []string
		hidden := 0
		for _, e := range entries {
			if e.Name()[0] == '.' {
				hidden++
			} else {
				visible = append(visible, e.Name())
			}
		}
		if !slices.Equal(visible, names) || hidden != 2 {
			t.Errorf("the directory has %v and %d hidden names, want %v and 2", visible, hidden, names)
		}
	}
	first := map[string]string{"a": "1", "d/b": "2", "d/e/c": "3"}
	if err := make(first).write(root); err != nil {
		t.Fatal(err)
	}
	check(first, "a", "d")
	before, _ := os.Readlink(filepath.Join(dir, dataLink))
	if err := make(first).write(root); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Readlink(filepath.Join(dir, dataLink)); after != before {
		t.Error("equal files were written again")
	}
	second := map[string]string{"a": "changed", "f": "4"}
	if err := make(second).write(root); err != nil {
		t.Fatal(err)
	}
	check(second, "a", "f")
	for _, path := range []string{"../x", "/x", "..x", "a/../../x", ""} {
		if err := (payload{}).add(path, nil, nil, nil); err == nil {
			t.Errorf("path %q was accepted", path)
		}
	}
}

func rootOf(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}
