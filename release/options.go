package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

const (
	repository  = "https://github.com/kapok-dev/kapok"
	description = "The Kubernetes API without the cluster"
	authors     = "The Kapok authors"
)

// options holds the settings of the command line.
type options struct {
	version  string // v1.2.3; "" for a snapshot, until its commit is known
	out      string // directory, which is created
	source   string // directory of the clone
	baseURL  string // of the directory with the released files, without a slash at the end
	snapshot bool   // not of a version, perhaps of a work tree with changes
	targets  []target

	// module and pkg select the program: its module by a directory, and its package. Tests build a
	// small program in place of Kapok.
	module, pkg string
}

// target is a system and an architecture, in Go's words.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// exe returns the suffix of the names of programs.
func (t target) exe() string {
	if t.os == "windows" {
		return ".exe"
	}
	return ""
}

// allTargets returns the targets of a release.
func allTargets() []target {
	var all []target
	for _, os := range []string{"darwin", "linux", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, target{os, arch})
		}
	}
	return all
}

// parse reads a command line. With --help, it prints the usage and returns flag.ErrHelp.
func parse(args []string, log io.Writer) (options, error) {
	o := options{pkg: "./cmd/kapok"}
	var targets string
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&o.version, "version", "", "`version` of the release, such as v0.1.0 or v0.1.0-rc.1")
	f.BoolVar(&o.snapshot, "snapshot", false, "make files of no version, v0.0.0-dev.TIME, also of a work tree with changes")
	f.StringVar(&o.out, "out", filepath.Join("..", "dist"), "`directory` for the files, which must be empty or absent")
	f.StringVar(&o.source, "source", "..", "`directory` of the clone of Kapok")
	f.StringVar(&o.baseURL, "base-url", "", "`URL` of the directory from which the files will be downloaded (default "+repository+"/releases/download/VERSION)")
	f.StringVar(&targets, "targets", "", "systems to build for, a comma-separated `list` of OS/ARCH (default all)")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if f.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.targets, err = parseTargets(targets); err != nil {
		return options{}, err
	}
	o.module = o.source
	return o, o.validate()
}

// parseTargets reads a list of targets, and returns them sorted. An empty list means all.
func parseTargets(list string) ([]target, error) {
	if list == "" {
		return allTargets(), nil
	}
	var targets []target
	for name := range strings.SplitSeq(list, ",") {
		os, arch, _ := strings.Cut(name, "/")
		t := target{os, arch}
		switch {
		case !slices.Contains(allTargets(), t):
			return nil, fmt.Errorf("--targets: unknown target %q: want some of %v", name, allTargets())
		case slices.Contains(targets, t):
			return nil, fmt.Errorf("--targets: %s is listed twice", t)
		}
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.String(), b.String()) })
	return targets, nil
}

func (o *options) validate() error {
	switch {
	case o.snapshot && o.version != "":
		return errors.New("--snapshot and --version exclude each other: a snapshot is of no version")
	case !o.snapshot && o.version == "":
		return errors.New("--version is missing: set it to a version such as v0.1.0, or use --snapshot")
	case o.version != "" && (semver.Canonical(o.version) != o.version):
		return fmt.Errorf("--version %q is not a semantic version with a v and without build metadata, such as v0.1.0 or v0.1.0-rc.1", o.version)
	case o.out == "":
		return errors.New("--out is empty")
	}
	o.baseURL = strings.TrimRight(o.baseURL, "/")
	if o.baseURL != "" && !plainURL(o.baseURL) {
		return fmt.Errorf("--base-url %q is not a URL of http or https without query and quotes", o.baseURL)
	}
	return nil
}

// plainURL reports whether a URL needs no quotes in a shell script, in YAML and in Ruby.
func plainURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" &&
		!strings.ContainsFunc(s, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~:/@%+", c)
		})
}

// complete sets the options that depend on the commit.
func (o *options) complete(s source) {
	if o.snapshot {
		o.version = "v0.0.0-dev." + s.time.UTC().Format("20060102150405")
	}
	if o.baseURL == "" {
		o.baseURL = repository + "/releases/download/" + o.version
	}
}
