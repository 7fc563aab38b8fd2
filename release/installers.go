package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"
)

// templates holds the templates of the installers. Their actions are in double square brackets, as
// actions of GitHub have curly ones.
//
//go:embed templates
var templates embed.FS

// installer is a file that is made from a template.
type installer struct {
	template string
	name     string // of the file
	mode     fs.FileMode
	needs    []string // systems whose archives it names; without one of them, it is left out
}

// installers returns the installers of a release. Those below channels go to places of others.
func installers() []installer {
	windows, unix := []string{"windows"}, []string{"darwin", "linux"}
	return []installer{
		{"install.sh", "install.sh", 0o755, nil},
		{"homebrew/kapok.rb", "channels/homebrew/kapok.rb", 0o644, unix},
		{"winget/version.yaml", "channels/winget/KapokDev.Kapok.yaml", 0o644, windows},
		{"winget/installer.yaml", "channels/winget/KapokDev.Kapok.installer.yaml", 0o644, windows},
		{"winget/locale.yaml", "channels/winget/KapokDev.Kapok.locale.en-US.yaml", 0o644, windows},
		{"launchd/dev.kapok.plist", "channels/launchd/dev.kapok.plist", 0o644, nil},
		{"setup-kapok/action.yml", "channels/setup-kapok/action.yml", 0o644, nil},
		{"install.sh", "channels/setup-kapok/install.sh", 0o755, nil},
		{"devcontainer/kapok/devcontainer-feature.json", "channels/devcontainer/kapok/devcontainer-feature.json", 0o644, nil},
		{"install.sh", "channels/devcontainer/kapok/install.sh", 0o755, nil},
	}
}

// facts holds the values that templates insert.
type facts struct {
	Version, Number          string // v0.1.0 and 0.1.0
	BaseURL, Repository      string
	Description, Authors     string
	Date                     string
	Archives                 []namedArchive
	DarwinARM64, DarwinX64   namedArchive
	LinuxARM64, LinuxX64     namedArchive
	WindowsARM64, WindowsX64 namedArchive
}

// namedArchive is the archive of a binary.
type namedArchive struct {
	Name   string // without extension: the directory in it
	File   string
	SHA256 string
}

// Upper is the checksum as winget writes it.
func (a namedArchive) Upper() string { return strings.ToUpper(a.SHA256) }

// writeInstallers writes the files by which others install the archives.
func (r *release) writeInstallers(context.Context) error {
	known, err := r.facts()
	if err != nil {
		return err
	}
	for _, i := range installers() {
		if !r.has(i.needs) {
			fmt.Fprintf(r.log, "%s is left out: it needs the archives of %v\n", i.name, i.needs)
			continue
		}
		text, err := i.execute(known)
		if err != nil {
			return err
		}
		if err := r.write(i.name, i.mode, text); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the release has all targets of the systems.
func (r *release) has(systems []string) bool {
	return !slices.ContainsFunc(allTargets(), func(t target) bool {
		return slices.Contains(systems, t.os) && !slices.Contains(r.targets, t)
	})
}

func (i installer) execute(known facts) ([]byte, error) {
	t, err := template.New(path.Base(i.template)).Delims("[[", "]]").Option("missingkey=error").ParseFS(templates, "templates/"+i.template)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, known); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// facts returns the values for the templates, with the checksums of the archives that are written
// already.
func (r *release) facts() (facts, error) {
	f := facts{
		Version: r.version, Number: r.number(), BaseURL: r.baseURL, Repository: repository, Description: description, Authors: authors,
		Date: r.time.Format("2006-01-02"),
	}
	places := map[target]*namedArchive{
		{"darwin", "arm64"}: &f.DarwinARM64, {"darwin", "amd64"}: &f.DarwinX64,
		{"linux", "arm64"}: &f.LinuxARM64, {"linux", "amd64"}: &f.LinuxX64,
		{"windows", "arm64"}: &f.WindowsARM64, {"windows", "amd64"}: &f.WindowsX64,
	}
	for _, b := range r.binaries {
		a := namedArchive{Name: r.name(b.target), File: r.name(b.target) + extension(b.target)}
		var err error
		if a.SHA256, err = r.sha256(a.File); err != nil {
			return facts{}, err
		}
		f.Archives = append(f.Archives, a)
		*places[b.target] = a
	}
	return f, nil
}
