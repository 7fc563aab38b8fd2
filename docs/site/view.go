package main

import (
	"html/template"
	"strings"
)

// view is a page with its frame, for the template.
type view struct {
	*page
	Words    words
	Home     bool // it is the first page
	Options  options
	Sections []group
	Other    *link // to the page in the other language
	Before   *link // to the pages around it in the navigation
	After    *link
	Fixed    []*link // in the foot of all pages

	frame *frame
}

// link is a link of the frame.
type link struct {
	To, Title string
	Lang      string // of the page that it leads to
	Current   bool   // it leads to this page
	Out       bool   // it leads out of the site
	Children  []*link
}

// group is a section of the navigation.
type group struct {
	Title string
	Open  bool // it has this page
	Links []*link
}

func (f *frame) view(p *page, n *navigation) view {
	v := view{page: p, Words: languages[p.lang], Home: p.path == home || p.path == translated(home), Options: f.options, frame: f}
	if other := p.translation; other != nil {
		v.Other = p.linkTo(&entry{title: languages[other.lang].Language, page: other})
	}
	for _, s := range n.sections {
		g := group{Title: s.title}
		for _, e := range s.entries {
			l := p.linkTo(e)
			own := n.of[p]
			if l.Current = e == own; l.Current || own != nil && n.parent[own] == e {
				g.Open = true
				for _, child := range e.children {
					c := p.linkTo(child)
					c.Current = child == own
					l.Children = append(l.Children, c)
				}
			}
			g.Links = append(g.Links, l)
		}
		v.Sections = append(v.Sections, g)
	}
	before, after := n.neighbours(p)
	v.Before, v.After = p.linkTo(before), p.linkTo(after)
	for _, fixed := range []entry{{title: v.Words.Overview, page: f.pages[home]}, {title: v.Words.AllPages, page: f.pages[contents]}, {title: v.Words.Changes, page: f.pages["CHANGELOG.md"]}} {
		if fixed.page == nil {
			continue
		}
		if other := fixed.page.translation; other != nil && other.lang == p.lang {
			fixed.page = other
		}
		l := p.linkTo(&fixed)
		l.Current = fixed.page == p
		v.Fixed = append(v.Fixed, l)
	}
	return v
}

// linkTo returns the link from a page to an entry, nil to none.
func (p *page) linkTo(e *entry) *link {
	switch {
	case e == nil:
		return nil
	case e.page == nil:
		return &link{To: e.link, Title: e.title, Lang: p.lang, Out: true}
	}
	return &link{To: relative(address(p.path), address(e.page.path)), Title: e.title, Lang: e.page.lang}
}

// The methods below are for the template, which reads no unexported fields.

// Lang returns the language of the page.
func (v view) Lang() string { return v.lang }

// Title returns the title of the page.
func (v view) Title() string { return v.title }

// Summary returns the first paragraph of the page.
func (v view) Summary() string { return v.summary }

// Head returns the title of the page, with its form.
func (v view) Head() template.HTML { return v.head }

// Body returns the page below its title.
func (v view) Body() template.HTML { return v.body }

// Version returns the name of the version of the site.
func (v view) Version() string { return v.Options.version }

// Repository returns the address of the repository on the web.
func (v view) Repository() string { return v.Options.source }

// Commit returns the beginning of the commit that the site shows.
func (v view) Commit() string { return v.Options.commit[:min(len(v.Options.commit), 8)] }

// Source returns the address of the document on the web.
func (v view) Source() string { return v.Options.onWeb(v.path, false) }

// Root returns the link to the directory of the version.
func (v view) Root() string { return strings.Repeat("../", strings.Count(v.path, "/")) }

// Asset returns the link to an asset.
func (v view) Asset(name string) string {
	name = "assets/" + name
	return v.Root() + name + "?" + v.frame.stamps[name]
}

// Headings returns the headings of the second and third level.
func (v view) Headings() []heading {
	var shown []heading
	for _, h := range v.headings {
		if h.Level <= 3 {
			shown = append(shown, h)
		}
	}
	return shown
}
