package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/kapok-dev/kapok/release/internal/archive"
)

// charts has the Helm chart. Its versions are placeholders, which the release replaces.
//
//go:embed all:chart
var charts embed.FS

// writeChart packs the chart as helm package does, with the version of the release.
func (r *release) writeChart(context.Context) error {
	chart, err := fs.Sub(charts, "chart/kapok")
	if err != nil {
		return err
	}
	all, err := tree(chart, "kapok")
	if err != nil {
		return err
	}
	var files []archive.File
	for _, f := range all {
		if f.Mode.IsDir() {
			continue // helm package writes none
		}
		if f.Name == "kapok/Chart.yaml" {
			if f.Data, err = r.versioned(f.Data); err != nil {
				return err
			}
		}
		files = append(files, f)
	}
	return archive.Create(filepath.Join(r.dist, "kapok-"+r.number()+".tgz"), archive.TarGz, r.time, files)
}

// number is the version without its v, as package managers have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// versioned sets the versions in the text of Chart.yaml.
func (r *release) versioned(text []byte) ([]byte, error) {
	for placeholder, version := range map[string]string{"\nversion: 0.0.0\n": r.number(), "\nappVersion: v0.0.0\n": r.version} {
		if bytes.Count(text, []byte(placeholder)) != 1 {
			return nil, fmt.Errorf("no line %q in Chart.yaml", strings.TrimSpace(placeholder))
		}
		key, _, _ := strings.Cut(placeholder, ":")
		text = bytes.Replace(text, []byte(placeholder), []byte(key+": "+version+"\n"), 1)
	}
	return text, nil
}
