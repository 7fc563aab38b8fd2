package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"

	"github.com/yuin/goldmark/ast"
)

// external is the error of target for a link that leads out of the repository.
var external = errors.New("not a path in the repository")

// target returns the file that a document links to, as a path in the repository, and the fragment
// of the link.
func target(from, link string) (name, fragment string, err error) {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return "", "", err
	case u.Scheme != "" || u.Host != "":
		return "", "", external
	case u.Path == "":
		return from, u.Fragment, nil
	}
	return path.Join(path.Dir(from), u.Path), u.Fragment, nil
}

// connect changes the links of a page to those of the site: pages by their addresses, images to
// copies, and other files to the repository on the web. It adds the images to the site. Whether
// fragments exist is checked when all pages are rendered.
func (s site) connect(p *page, r *repository, o options) error {
	var errs []error
	for n := range nodes(p.tree) {
		var destination *[]byte
		switch n := n.(type) {
		case *ast.Link:
			destination = &n.Destination
		case *ast.Image:
			destination = &n.Destination
		default:
			continue
		}
		_, image := n.(*ast.Image)
		link, err := s.follow(p, string(*destination), image, r, o)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s links to %s: %w", p.path, *destination, err))
		}
		*destination = []byte(link)
	}
	return errors.Join(errs...)
}

// follow returns a link as it is in the site.
func (s site) follow(p *page, link string, image bool, r *repository, o options) (string, error) {
	name, fragment, err := target(p.path, link)
	switch {
	case err == external && image:
		return "", errors.New("an image must be in the repository")
	case err == external:
		return link, nil
	case err != nil:
		return "", err
	}
	suffix := ""
	if fragment != "" {
		suffix = "#" + url.PathEscape(fragment)
	}
	switch to := r.pages[name]; {
	case to == p:
		return suffix, nil
	case to != nil:
		return relative(address(p.path), address(name)) + suffix, nil
	}
	info, err := fs.Stat(r.files, name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid):
		return "", errors.New("no such file in the repository")
	case err != nil:
		return "", err
	case image:
		if s[name], err = fs.ReadFile(r.files, name); err != nil {
			return "", err
		}
		return relative(address(p.path), name), nil
	}
	return o.onWeb(name, info.IsDir()) + suffix, nil
}

// onWeb returns the address of a file or directory of the repository on the web.
func (o options) onWeb(name string, dir bool) string {
	form := "blob"
	if dir {
		form = "tree"
	}
	return fmt.Sprintf("%s/%s/%s/%s", o.source, form, o.commit, name)
}
