package main

import (
	"html/template"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// page is a document of the repository, and its page of the site.
type page struct {
	path     string // in the repository: docs/testing.md
	lang     string // of its words: a key of languages
	text     []byte // Markdown
	tree     ast.Node
	title    string // of the first heading
	summary  string // the first paragraph
	headings []heading
	passages []passage
	head     template.HTML // the title
	body     template.HTML // what follows

	translation *page // the same in the other language, or nil
}

// heading is a heading below the title.
type heading struct {
	Level    int // 2 or more
	ID, Text string
}

// Names of languages, as in attributes of HTML and in the names of files.
const (
	english = "en"
	chinese = "zh-CN"
)

// languageOf returns the language of a document by its name: X.zh-CN.md is the Chinese X.md.
func languageOf(name string) string {
	if strings.HasSuffix(name, "."+chinese+".md") {
		return chinese
	}
	return english
}

// translated returns the name of a document in the other language.
func translated(name string) string {
	if original, ok := strings.CutSuffix(name, "."+chinese+".md"); ok {
		return original + ".md"
	}
	return strings.TrimSuffix(name, ".md") + "." + chinese + ".md"
}

// address returns the path of a document's page in the site: that in the repository, where README
// is index. So relative links between documents lead the same way in both.
func address(name string) string {
	dir, base := path.Split(strings.TrimSuffix(name, ".md"))
	if rest, ok := strings.CutPrefix(base, "README"); ok {
		base = "index" + rest
	}
	return dir + base + ".html"
}

// relative returns the link from a file of the site to another one. Both are clean paths below the
// same root.
func relative(from, to string) string {
	here, there := strings.Split(from, "/"), strings.Split(to, "/")
	for len(here) > 1 && len(there) > 1 && here[0] == there[0] {
		here, there = here[1:], there[1:]
	}
	return strings.Repeat("../", len(here)-1) + strings.Join(there, "/")
}
