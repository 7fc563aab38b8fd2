package main

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
	extensions "github.com/yuin/goldmark/extension/ast"
)

// section is a section of the contents.
type section struct {
	title   string
	entries []*entry
}

// entry is a page in the navigation, or a link out of the site.
type entry struct {
	title    string
	page     *page // nil for a link out of the site
	link     string
	children []*entry // the pages of its directory that the contents do not list
}

// navigation is the order of the pages: that of docs/README.md, whose sections have a table with a
// link in each row.
type navigation struct {
	sections []*section
	flat     []*entry         // the entries with pages, in order
	of       map[*page]*entry // also the children
	parent   map[*entry]*entry
}

// readNavigation reads the navigation of a language from the contents. The Chinese contents are
// those of docs/README.zh-CN.md if there are any. Each page below docs must have a place.
func (r *repository) readNavigation(lang string) (*navigation, error) {
	list := r.pages[contents]
	if other := list.translation; other != nil && other.lang == lang {
		list = other
	}
	n := &navigation{of: map[*page]*entry{}, parent: map[*entry]*entry{}}
	var current *section
	for node := range nodes(list.tree) {
		switch node := node.(type) {
		case *ast.Heading:
			if node.Level == 2 {
				current = &section{title: list.words(node)}
				n.sections = append(n.sections, current)
			}
		case *extensions.TableRow:
			if e := r.entryOf(list, node, lang); e != nil && current != nil {
				current.entries = append(current.entries, e)
				n.add(e)
			}
		}
	}
	if len(n.flat) == 0 {
		return nil, fmt.Errorf("%s has no section with a table of pages", list.path)
	}
	return n, r.place(n, lang)
}

// entryOf returns the entry of a row: its first link. It is nil if the row has no link to a page or
// out of the repository.
func (r *repository) entryOf(list *page, row ast.Node, lang string) *entry {
	for node := range nodes(row) {
		link, ok := node.(*ast.Link)
		if !ok {
			continue
		}
		e := &entry{title: list.words(link)}
		name, _, err := target(list.path, string(link.Destination))
		if err == external {
			e.link = string(link.Destination)
			return e
		}
		if e.page = r.pages[name]; err != nil || e.page == nil {
			return nil
		}
		if other := e.page.translation; other != nil && other.lang == lang {
			e.page = other
		}
		return e
	}
	return nil
}

// add records an entry of the contents.
func (n *navigation) add(e *entry) {
	if e.page == nil || n.of[e.page] != nil {
		return
	}
	n.flat = append(n.flat, e)
	n.record(e)
}

// record makes an entry that of its page, in both languages.
func (n *navigation) record(e *entry) {
	n.of[e.page] = e
	if other := e.page.translation; other != nil && n.of[other] == nil {
		n.of[other] = e
	}
}

// place gives the pages below docs that the contents do not list to the first listed page of their
// directory.
func (r *repository) place(n *navigation, lang string) error {
	first := map[string]*entry{} // by directories
	for _, e := range n.flat {
		if dir := path.Dir(e.page.path); first[dir] == nil && dir != docs {
			first[dir] = e
		}
	}
	var errs []error
	for _, p := range r.sorted() {
		if n.of[p] != nil || p.path == contents || p.path == translated(contents) || !strings.HasPrefix(p.path, docs+"/") {
			continue
		}
		if other := p.translation; other != nil && other.lang == lang {
			continue // the translation is the one to be placed
		}
		parent := first[path.Dir(p.path)]
		if parent == nil {
			errs = append(errs, fmt.Errorf("%s is not listed in %s: add a row for it", p.path, contents))
			continue
		}
		e := &entry{title: p.title, page: p}
		parent.children = append(parent.children, e)
		n.parent[e] = parent
		n.record(e)
	}
	return errors.Join(errs...)
}

// neighbours returns the entries before and after that of a page, or nil. Children have those in
// their own list, and the parent of the list before the first.
func (n *navigation) neighbours(p *page) (before, after *entry) {
	e := n.of[p]
	if e == nil {
		return nil, nil
	}
	list := n.flat
	if parent := n.parent[e]; parent != nil {
		list = append([]*entry{parent}, parent.children...)
	}
	for i, other := range list {
		if other != e {
			continue
		}
		if i > 0 {
			before = list[i-1]
		}
		if i+1 < len(list) {
			after = list[i+1]
		}
	}
	return before, after
}
