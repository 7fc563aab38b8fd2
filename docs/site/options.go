package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// options holds the settings of the command line.
type options struct {
	root    string // directory of the clone
	out     string // directory of all versions
	version string // name of this one
	source  string // address of the repository on the web, without a slash at the end
	commit  string // that links to the repository show
	serve   string // address to serve the site at; "" to write it
}

// dir returns the directory that the site is written to.
func (o options) dir() string { return filepath.Join(o.out, o.version) }

// named matches the names of versions, which are directories and parts of URLs.
var named = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// parse reads a command line. With --help, it prints the usage and returns flag.ErrHelp.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("site", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.root, "root", filepath.Join("..", ".."), "`directory` of the clone of Kapok")
	f.StringVar(&o.out, "out", filepath.Join("..", "..", "dist", "site"), "`directory` of the versions of the site; this one is written to a directory in it")
	f.StringVar(&o.version, "version", "main", "`name` of this version of the site, such as v0.1.0")
	f.StringVar(&o.source, "source", "https://github.com/kapok-dev/kapok", "`URL` of the repository, for links to files that are not pages")
	f.StringVar(&o.serve, "serve", "", "serve the site at this `address`, such as localhost:8000, and build it again for each request of a page; write nothing")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if f.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	o.source = strings.TrimSuffix(o.source, "/")
	return o, o.validate()
}

func (o options) validate() error {
	if !named.MatchString(o.version) {
		return fmt.Errorf("--version %q: want letters, digits and . _ + -, the first a letter or a digit", o.version)
	}
	if u, err := url.Parse(o.source); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("--source %q is not a URL such as https://github.com/kapok-dev/kapok", o.source)
	}
	return nil
}

// commitOf returns the commit that is checked out in a clone.
func commitOf(ctx context.Context, root string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "HEAD").Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("commit of %s: %w", root, err)
	}
	return strings.TrimSpace(string(out)), nil
}
