package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"golang.org/x/net/html"
)

// check follows all links of the finished pages within the site, to their fragments, and reports
// those that lead nowhere, also those of the frame. Only links that leave the site are not tried.
func (s site) check() error {
	ids := map[string]map[string]bool{} // by files
	links := map[string][]string{}
	var errs []error
	names := slices.Sorted(maps.Keys(s))
	for _, name := range names {
		if path.Ext(name) != ".html" {
			continue
		}
		ids[name] = map[string]bool{}
		err := attributes(s[name], func(element, key, value string) {
			switch key {
			case "id":
				if ids[name][value] {
					errs = append(errs, fmt.Errorf("%s has two elements with the ID %q", name, value))
				}
				ids[name][value] = true
			case "href", "src":
				links[name] = append(links[name], value)
			}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range names {
		for _, link := range links[name] {
			to, fragment, err := target(name, link)
			switch {
			case err == external:
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: link %q: %w", name, link, err))
			case s[to] == nil:
				errs = append(errs, fmt.Errorf("%s: link %q: the site has no file %s", name, link, to))
			case fragment != "" && !ids[to][fragment]:
				errs = append(errs, fmt.Errorf("%s: link %q: %s has no heading with this anchor", name, link, to))
			}
		}
	}
	return errors.Join(errs...)
}

// attributes calls a function with each attribute of a page.
func attributes(page []byte, each func(element, key, value string)) error {
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if errors.Is(z.Err(), io.EOF) {
				return nil
			}
			return z.Err()
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			for _, a := range token.Attr {
				each(token.Data, a.Key, a.Val)
			}
		}
	}
}
