package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// clone writes a small module with the name of Kapok's.
func clone(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module " + module + "\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestChanges(t *testing.T) {
	older := clone(t, map[string]string{
		"kapok.go":            "package kapok\nimport \"" + module + "/internal/audit\"\ntype AuditOptions = audit.Options\nfunc Start() {}\nfunc Same() {}\n",
		"internal/audit/a.go": "package audit\ntype Options struct { Path string; Size int }\ntype Other struct { Gone int }\n",
		"gone/gone.go":        "package gone\n",
		"test/some/some.go":   "package some\nfunc Gone() {}\n",
	})
	newer := clone(t, map[string]string{
		"kapok.go":            "package kapok\nimport \"" + module + "/internal/audit\"\ntype AuditOptions = audit.Options\nfunc Start(n int) {}\nfunc Same() {}\nfunc New() {}\n",
		"internal/audit/a.go": "package audit\ntype Options struct { Size int; More string }\ntype Other struct{}\n",
		"test/some/some.go":   "package some\n",
	})
	got, err := changes(older, newer)
	want := []string{
		module + ".Start: changed from func() to func(int)",
		module + "/gone: removed",
		module + "/internal/audit.Options.Path: removed",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if same, err := changes(older, older); err != nil || len(same) > 0 {
		t.Errorf("without a change: %q, %v", same, err)
	}
}
