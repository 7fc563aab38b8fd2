package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// versionsFile lists the versions in a directory, the newest first, for the pages' switch.
const versionsFile = "versions.json"

// store writes a site into the directory of its version in out, in place of an earlier one, and
// the list of versions and the first page of out. It refuses a directory that has files and is not
// that of a version.
func store(s site, out, version string) error {
	versions, err := readVersions(out)
	if err != nil {
		return err
	}
	dir := filepath.Join(out, version)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 && !slices.Contains(versions, version) {
		return fmt.Errorf("%s has files, and is not in %s: remove it, or use another directory", dir, filepath.Join(out, versionsFile))
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	// Complete or not at all: a failure leaves the earlier version.
	next, err := os.MkdirTemp(out, ".next-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(next)
	if err := os.Chmod(next, 0o755); err != nil {
		return err
	}
	if err := s.writeTo(next); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(next, dir); err != nil {
		return err
	}
	if !slices.Contains(versions, version) {
		versions = append(versions, version)
	}
	slices.SortFunc(versions, newestFirst)
	list, err := listOf(versions)
	if err != nil {
		return err
	}
	return site{versionsFile: list, "index.html": redirect(versions)}.writeTo(out)
}

// writeTo writes the files of a site into a directory.
func (s site) writeTo(dir string) error {
	for name, data := range s {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readVersions returns the versions of a directory. It is empty if there are none.
func readVersions(out string) (versions []string, err error) {
	name := filepath.Join(out, versionsFile)
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(data, &versions); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return versions, nil
}

// newestFirst compares versions: releases before others, newer ones first.
func newestFirst(a, b string) int {
	if order := semver.Compare(b, a); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

func listOf(versions []string) ([]byte, error) {
	data, err := json.Marshal(versions)
	return append(data, '\n'), err
}

// redirect returns the first page of a directory of versions. It leads to the newest release, or
// without one to the first version.
func redirect(versions []string) []byte {
	to := versions[0]
	for _, v := range versions {
		if semver.IsValid(v) && semver.Prerelease(v) == "" {
			to = v
			break
		}
	}
	return fmt.Appendf(nil, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=%s/">
<link rel="icon" href="%[1]s/assets/icon.svg" type="image/svg+xml">
<title>Kapok</title>
<p><a href="%[1]s/">Kapok %[1]s</a></p>
`, to)
}
