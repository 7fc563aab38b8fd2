package main

import (
	"strings"
	"testing"
)

func parsed(t *testing.T, text string) *page {
	t.Helper()
	p := &page{path: "docs/x.md", lang: english, text: []byte(text)}
	p.parse()
	if err := p.render(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAnchors checks the IDs of headings, which are those of GitHub.
func TestAnchors(t *testing.T) {
	p := parsed(t, "# Title\n\n## `--flag` and *more*\n\n## What, why? It's 1.5\n\n## A [link](x.md)\n\n## 五分钟 operator\n\n## Same\n\n## Same\n\n## Same\n\n### a_b - c\n")
	want := []string{"--flag-and-more", "what-why-its-15", "a-link", "五分钟-operator", "same", "same-1", "same-2", "a_b---c"}
	for i, h := range p.headings {
		if h.ID != want[i] {
			t.Errorf("%q: got %q, want %q", h.Text, h.ID, want[i])
		}
	}
	if len(p.headings) != len(want) {
		t.Errorf("%d headings, want %d", len(p.headings), len(want))
	}
}

// TestLevels checks that a document that begins with a heading of the second level has a title, and
// no gap between its levels.
func TestLevels(t *testing.T) {
	p := parsed(t, "## kapok up\n\n### Options\n")
	if p.title != "kapok up" || p.head != `<h1 id="kapok-up">kapok up</h1>` || p.headings[0].Level != 2 {
		t.Errorf("title %q, head %s, headings %v", p.title, p.head, p.headings)
	}
}

// TestRendered checks what differs from the HTML of goldmark.
func TestRendered(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"escaped":   {"a <b & `<i>`", `<p>a &lt;b &amp; <code class="short">&lt;i&gt;</code></p>`},
		"long code": {"`kapok up --listen 127.0.0.1:6443`", `<p><code>kapok up --listen 127.0.0.1:6443</code></p>`},
		"comment":   {"<!-- note -->\n\nText", "<p>Text</p>"},
		"table":     {"| a | b |\n|---|--:|\n| 1 | 2 |", `<div class="scroll"><table>` + "\n<thead>\n<tr>\n<th>a</th>\n" + `<th align="right">b</th>`},
		"heading":   {"## A & B", `<h2 id="a--b">A &amp; B<a class="anchor" href="#a--b" aria-hidden="true" tabindex="-1">#</a></h2>`},
		"Chinese":   {"集群\n服务器", "<p>集群服务器</p>"},
		"link":      {"[x](javascript:alert(1))", `<p><a href="">x</a></p>`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.TrimSpace(string(parsed(t, "# Title\n\n"+c.text+"\n").body)); !strings.HasPrefix(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestPassages checks the parts of a page that the search finds.
func TestPassages(t *testing.T) {
	p := parsed(t, "# Title\n\nFirst `code` and\n[link](x.md).\n\n## Table\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n    $ kapok up\n\n- item\n")
	want := []passage{{"", "", "First code and link."}, {"table", "Table", "a b 1 2 $ kapok up item"}}
	if len(p.passages) != 2 || p.passages[0] != want[0] || p.passages[1] != want[1] {
		t.Errorf("got  %q\nwant %q", p.passages, want)
	}
	if p.summary != "First code and link." {
		t.Errorf("summary %q", p.summary)
	}
}
