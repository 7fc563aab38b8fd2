package main

import (
	"errors"
	"fmt"
	"io/fs"
)

// site holds the files of a site, by their paths below its directory.
type site map[string][]byte

// build makes the site of a clone. It fails if a link leads nowhere, if a document contains HTML,
// and if a document below docs is not in the navigation; the error has all that was found.
func build(files fs.FS, o options) (site, error) {
	r, err := readRepository(files)
	if err != nil {
		return nil, err
	}
	s := site{}
	var errs []error
	navigations := map[string]*navigation{}
	for lang := range languages {
		// The first one is enough if a page has no place: all of them report it.
		if navigations[lang], err = r.readNavigation(lang); err != nil {
			return nil, err
		}
	}
	pages := r.sorted()
	for _, p := range pages {
		errs = append(errs, s.connect(p, r, o), p.render())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	f, err := newFrame(files, pages, o)
	if err != nil {
		return nil, err
	}
	for name, data := range f.assets {
		s[name] = data
	}
	for _, p := range pages {
		if s[address(p.path)], err = f.page(p, navigations[p.lang]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return s, s.check()
}
