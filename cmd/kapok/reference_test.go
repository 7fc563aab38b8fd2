package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reference")

// TestReference compares docs/reference with the commands.
func TestReference(t *testing.T) {
	checkedIn := filepath.Join("..", "..", "docs", "reference")
	if *rewrite {
		if err := os.RemoveAll(checkedIn); err != nil {
			t.Fatal(err)
		}
		if err := writeReference(newRoot(), checkedIn, "markdown"); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := writeReference(newRoot(), dir, "markdown"); err != nil {
		t.Fatal(err)
	}
	want, got := pagesIn(t, dir), pagesIn(t, checkedIn)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("docs/reference/%s is not what the command has: go test ./cmd/kapok -run TestReference -rewrite", name)
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("docs/reference/%s is of no command", name)
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if page := strings.ReplaceAll(c.CommandPath(), " ", "_") + ".md"; c.IsAvailableCommand() && want[page] == "" {
			t.Errorf("%s has no page", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestManualPages(t *testing.T) {
	s := newShell(t, "")
	if code, _, errs := s.kapok("", "reference --format man pages/man1"); code != 0 {
		t.Fatal(errs)
	}
	page, err := os.ReadFile(filepath.Join(s.home, "pages", "man1", "kapok-up.1"))
	if err != nil || !strings.Contains(string(page), ".SH OPTIONS") || !strings.Contains(string(page), "data-dir") {
		t.Errorf("kapok-up.1: %.200s, %v", page, err)
	}
	for _, args := range []string{"reference", "reference --format html pages", "reference a b"} {
		if code, _, errs := s.kapok("", args); code != exitUsage || errs == "" {
			t.Errorf("kapok %s: exit code %d: %s", args, code, errs)
		}
	}
}

func pagesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		pages[e.Name()] = string(text)
	}
	return pages
}
