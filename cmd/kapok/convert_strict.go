package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The values of --validate.
const (
	validateStrict = "strict" // an unknown or duplicate field is an error
	validateWarn   = "warn"   // printed as a warning
	validateIgnore = "ignore" // dropped silently
)

// findings are the unknown and duplicate fields of manifests.
type findings []error

// add records the findings of a document.
func (f *findings) add(d document, errs ...error) {
	for _, err := range errs {
		*f = append(*f, fmt.Errorf("%s: %w", d, err))
	}
}

// judge returns the findings as an error, prints them as warnings, or ignores them, depending on
// --validate.
func (f findings) judge(validate string, stderr io.Writer) error {
	switch validate {
	case validateIgnore:
		return nil
	case validateWarn:
		for _, err := range f {
			fmt.Fprintf(stderr, "kapok: warning: %v\n", err)
		}
		return nil
	}
	return errors.Join(f...)
}

// repeatedKeys takes the error for keys of YAML that are there twice apart: there is one line for
// each.
func repeatedKeys(err error) (all []error) {
	_, lines, found := strings.Cut(err.Error(), "yaml: unmarshal errors:\n")
	if !found {
		return []error{err}
	}
	for line := range strings.Lines(lines) {
		all = append(all, errors.New(strings.TrimSpace(line)+" (line numbers are relative to the document)"))
	}
	return all
}
