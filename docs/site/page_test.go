package main

import "testing"

// TestRelative checks links between files, also to a file outside the site.
func TestRelative(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"index.html", "index.html", "index.html"},
		{"index.html", "docs/a.html", "docs/a.html"},
		{"docs/a.html", "docs/b.html", "b.html"},
		{"docs/a.html", "docs/reading/b.html", "reading/b.html"},
		{"docs/reading/a.html", "docs/b.html", "../b.html"},
		{"docs/a.html", "assets/icon.svg", "../assets/icon.svg"},
		{"docs/a.html", "index.html", "../index.html"},
		{"docs/docs", "docs", "../docs"},
		{"docs/a.html", "../x", "../../x"},
	} {
		if got := relative(tt.from, tt.to); got != tt.want {
			t.Errorf("link from %s to %s: %s, want %s", tt.from, tt.to, got, tt.want)
		}
	}
}
