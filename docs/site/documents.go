package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// The documents that the others are found from.
const (
	home     = "README.md"      // the first page
	contents = "docs/README.md" // the list of all pages, which is the navigation
	docs     = "docs"
)

// repository holds the documents that become pages.
type repository struct {
	files fs.FS
	pages map[string]*page // by paths
}

// readRepository reads the documents below docs, the home page, both with their translations, and
// the documents that the home page and the contents link to.
func readRepository(files fs.FS) (*repository, error) {
	r := &repository{files: files, pages: map[string]*page{}}
	err := fs.WalkDir(files, docs, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == path.Join(docs, "site"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		return r.read(name)
	})
	if err != nil {
		return nil, err
	}
	if err := r.read(home); err != nil {
		return nil, err
	}
	if err := r.read(translated(home)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, from := range []string{home, contents} {
		p := r.pages[from]
		if p == nil {
			return nil, fmt.Errorf("%s does not exist", from)
		}
		for _, name := range r.listed(p) {
			if err := r.read(name); err != nil {
				return nil, err
			}
		}
	}
	for name, p := range r.pages {
		p.translation = r.pages[translated(name)]
	}
	return r, nil
}

// read reads a document, if it is not read yet.
func (r *repository) read(name string) error {
	if r.pages[name] != nil {
		return nil
	}
	text, err := fs.ReadFile(r.files, name)
	if err != nil {
		return err
	}
	p := &page{path: name, lang: languageOf(name), text: text}
	p.parse()
	r.pages[name] = p
	return nil
}

// listed returns the existing documents that a page links to.
func (r *repository) listed(p *page) (names []string) {
	for n := range nodes(p.tree) {
		link, ok := n.(*ast.Link)
		if !ok {
			continue
		}
		name, _, err := target(p.path, string(link.Destination))
		if err != nil || path.Ext(name) != ".md" || slices.Contains(names, name) {
			continue // links report what is wrong with them
		}
		if _, err := fs.Stat(r.files, name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// sorted returns the pages in the order of their paths.
func (r *repository) sorted() []*page {
	var all []*page
	for _, p := range r.pages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *page) int { return strings.Compare(a.path, b.path) })
	return all
}
