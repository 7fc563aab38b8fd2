package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kapok-dev/kapok/release/internal/archive"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packaging has the unit of systemd, its settings, and the scripts of packages.
//
//go:embed packaging
var packaging embed.FS

// packageKind is a kind of package, and where its distributions differ.
type packageKind struct {
	name     string
	packager nfpm.Packager
	zsh      string   // directory of completions
	license  string   // path of the license
	depends  []string // the package with useradd
}

func packageKinds() []packageKind {
	return []packageKind{
		{"deb", deb.Default, "/usr/share/zsh/vendor-completions", "/usr/share/doc/kapok/copyright", []string{"passwd"}},
		{"rpm", rpm.DefaultRPM, "/usr/share/zsh/site-functions", "/usr/share/licenses/kapok/LICENSE", []string{"shadow-utils"}},
	}
}

// writePackages writes a package of each kind for each architecture of Linux.
func (r *release) writePackages(ctx context.Context) error {
	var shared files.Contents
	for _, b := range r.binaries {
		if b.os != "linux" {
			continue
		}
		if shared == nil {
			var err error
			if shared, err = r.sharedContents(ctx); err != nil {
				return err
			}
		}
		for _, kind := range packageKinds() {
			if err := r.writePackage(b, kind, shared); err != nil {
				return fmt.Errorf("%s for %s: %w", kind.name, b.arch, err)
			}
		}
	}
	return nil
}

func (r *release) writePackage(b binary, kind packageKind, shared files.Contents) error {
	scratch := func(name string) string { return filepath.Join(r.scratch, "package", name) }
	contents := files.Contents{
		content(b.path, "/usr/bin/kapok", 0o755),
		content(filepath.Join(r.source.dir, "LICENSE"), kind.license, 0o644),
		content(scratch("completion.zsh"), kind.zsh+"/_kapok", 0o644),
	}
	for _, c := range shared {
		same := *c // the packager changes what it gets
		info := *c.FileInfo
		same.FileInfo = &info
		contents = append(contents, &same)
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "kapok", Arch: b.arch, Platform: "linux", Version: r.version, Section: "admin", Priority: "optional",
		Maintainer: authors + " <" + repository + ">", Vendor: authors, Homepage: repository, License: "Apache-2.0",
		Description: description + ".\nAn API server for the built-in kinds of Kubernetes and custom resources, as one program.",
		MTime:       r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Depends: kind.depends, Contents: contents, Umask: 0o022,
			Scripts: nfpm.Scripts{
				PreInstall: scratch("preinstall.sh"), PostInstall: scratch("postinstall.sh"),
				PreRemove: scratch("preremove.sh"), PostRemove: scratch("postremove.sh"),
			},
			RPM: nfpm.RPM{Summary: description, BuildHost: "localhost"}, // not the name of this machine
		},
	})
	var data bytes.Buffer
	if err := kind.packager.Package(info, &data); err != nil {
		return err
	}
	return r.write(r.name(b.target)+"."+kind.name, 0o644, data.Bytes())
}

func content(source, destination string, mode fs.FileMode) *files.Content {
	return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode}}
}

// sharedContents writes the files that all packages have, and returns their places in a package.
func (r *release) sharedContents(ctx context.Context) (files.Contents, error) {
	dir := filepath.Join(r.scratch, "package")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := unpack(packaging, "packaging", dir); err != nil {
		return nil, err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := r.ask(ctx, "completion", shell)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "completion."+shell), script, 0o644); err != nil {
			return nil, err
		}
	}
	settings := content(filepath.Join(dir, "kapok.default"), "/etc/default/kapok", 0o644)
	settings.Type = files.TypeConfigNoReplace
	contents := files.Contents{
		settings,
		content(filepath.Join(dir, "kapok.service"), "/usr/lib/systemd/system/kapok.service", 0o644),
		content(filepath.Join(dir, "completion.bash"), "/usr/share/bash-completion/completions/kapok", 0o644),
		content(filepath.Join(dir, "completion.fish"), "/usr/share/fish/vendor_completions.d/kapok.fish", 0o644),
	}
	pages, err := r.manualPages(ctx, filepath.Join(dir, "man1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		contents = append(contents, content(page, "/usr/share/man/man1/"+filepath.Base(page), 0o644))
	}
	return contents, nil
}

// manualPages lets the program write its manual pages into a directory, and returns their paths,
// compressed.
func (r *release) manualPages(ctx context.Context, dir string) ([]string, error) {
	if _, err := r.ask(ctx, "reference", "--format", "man", dir); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return nil, err
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("kapok reference wrote no manual page into %s", dir)
	}
	for i, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		small, err := archive.Gzip(text)
		if err != nil {
			return nil, err
		}
		pages[i] = page + ".gz"
		if err := os.WriteFile(pages[i], small, 0o644); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// unpack copies the files of a directory to another one.
func unpack(from fs.FS, root, to string) error {
	return fs.WalkDir(from, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		path := filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(name, root+"/")))
		return os.WriteFile(path, data, 0o644)
	})
}
