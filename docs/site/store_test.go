package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVersions checks versions that stand side by side: their list, the first page, and that a
// version replaces an earlier build of itself.
func TestVersions(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	for _, version := range []string{"main", "v0.9.0", "v0.10.0", "v0.11.0-rc.1", "v0.9.0"} {
		if err := store(site{"index.html": []byte(version), "docs/x.html": nil}, out, version); err != nil {
			t.Fatal(err)
		}
	}
	versions, err := readVersions(out)
	if want := []string{"v0.11.0-rc.1", "v0.10.0", "v0.9.0", "main"}; err != nil || !slices.Equal(versions, want) {
		t.Errorf("versions %q, want %q: %v", versions, want, err)
	}
	first, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil || !strings.Contains(string(first), `content="0; url=v0.10.0/"`) {
		t.Errorf("the first page does not lead to the newest release: %s, %v", first, err)
	}
	if err := store(site{"new.html": nil}, out, "main"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(out, "main"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "new.html" {
		t.Errorf("main has %v, want new.html alone: %v", entries, err)
	}
	all, err := os.ReadDir(out)
	if err != nil || len(all) != 6 {
		t.Errorf("%s has %v, want 4 versions and 2 files: %v", out, all, err)
	}
}

// TestStrangers checks that files of others are kept.
func TestStrangers(t *testing.T) {
	out := t.TempDir()
	file := filepath.Join(out, "main", "thesis.txt")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := store(site{}, out, "main"); err == nil || !strings.Contains(err.Error(), "has files") {
		t.Errorf("got %v, want an error", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(out, versionsFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := store(site{}, out, "v1.0.0"); err == nil || !strings.Contains(err.Error(), versionsFile) {
		t.Errorf("got %v, want an error about %s", err, versionsFile)
	}
}
