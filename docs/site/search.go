package main

import (
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// passage is a part of a page that the search finds: what is below a heading.
type passage struct {
	id, title string // of the heading; of the page's title, the ID is ""
	text      string
}

// split returns the passages of a page.
func (p *page) split() []passage {
	passages := []passage{{}}
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		last := &passages[len(passages)-1]
		if h, ok := n.(*ast.Heading); ok && h.Level > 1 {
			id, _ := h.AttributeString("id")
			passages = append(passages, passage{id: string(id.([]byte)), title: p.words(h)})
		} else if !ok {
			last.text += p.words(n) + " "
		}
	}
	for i := range passages {
		passages[i].text = strings.Join(strings.Fields(passages[i].text), " ")
	}
	return passages
}

// found is a passage in the index of the search.
type found struct {
	Link  string `json:"u"`
	Page  string `json:"p"` // title of the page
	Title string `json:"h,omitempty"`
	Text  string `json:"t"`
	Lang  string `json:"l,omitempty"` // if it is not English
}

// index returns the passages of all pages as a script, which sets a variable: pages that are opened
// from a disk can load scripts, but no data. It has the text itself, and no index of its words: to
// look through all of it finds parts of words, and Chinese without knowing where its words end.
func index(pages []*page) ([]byte, error) {
	var all []found
	for _, p := range pages {
		for _, part := range p.passages {
			f := found{Link: address(p.path), Page: p.title, Title: part.title, Text: part.text}
			if part.id != "" {
				f.Link += "#" + part.id
			}
			if p.lang != english {
				f.Lang = p.lang
			}
			all = append(all, f)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("var passages = "), data...), ";\n"...), nil
}
