package main

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
)

//go:embed frame
var frameFiles embed.FS

// icon is the icon of the console, which is that of the site as well.
const icon = "console/web/public/icon.svg"

// frame is what all pages have around them.
type frame struct {
	options  options
	template *template.Template
	assets   site              // scripts, style sheet, icon and the index of the search
	stamps   map[string]string // of the assets: parts of their links that change with them
	pages    map[string]*page  // by their paths, for links of the frame
}

// newFrame reads the parts of the frame, and makes the index of the pages.
func newFrame(files fs.FS, pages []*page, o options) (*frame, error) {
	f := &frame{options: o, assets: site{}, stamps: map[string]string{}, pages: map[string]*page{}}
	parts, err := fs.Glob(frameFiles, "frame/*")
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		data, err := frameFiles.ReadFile(part)
		if err != nil {
			return nil, err
		}
		if path.Ext(part) == ".html" {
			if f.template, err = template.New(path.Base(part)).Parse(string(data)); err != nil {
				return nil, err
			}
			continue
		}
		f.assets["assets/"+path.Base(part)] = data
	}
	if f.assets["assets/passages.js"], err = index(pages); err != nil {
		return nil, err
	}
	if f.assets["assets/icon.svg"], err = fs.ReadFile(files, icon); err != nil {
		return nil, err
	}
	for name, data := range f.assets {
		f.stamps[name] = fmt.Sprintf("%x", sha256.Sum256(data))[:8]
	}
	for _, p := range pages {
		f.pages[p.path] = p
	}
	return f, nil
}

// page returns the file of a page.
func (f *frame) page(p *page, n *navigation) ([]byte, error) {
	var b bytes.Buffer
	err := f.template.Execute(&b, f.view(p, n))
	return b.Bytes(), err
}
