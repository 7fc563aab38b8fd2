package generate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"k8s.io/gengo/v2"
)

// The tags in package comments that ask for a generator.
var tags = map[string]*regexp.Regexp{
	"deepcopy":   regexp.MustCompile(`(?m)^\s*//\s*\+k8s:deepcopy-gen=`),
	"defaulter":  regexp.MustCompile(`(?m)^\s*//\s*\+k8s:defaulter-gen=`),
	"conversion": regexp.MustCompile(`(?m)^\s*//\s*\+k8s:conversion-gen=`),
	"register":   regexp.MustCompile(`(?m)^\s*//\s*\+groupName`),
	"lifecycle":  regexp.MustCompile(`(?m)^\s*//\s*\+k8s:prerelease-lifecycle-gen=`),
	"client":     regexp.MustCompile(`(?m)^\s*//\s*\+genclient`),
	"validation": regexp.MustCompile(`(?m)^\s*//\s*\+k8s:validation-gen=`),
	"openapi":    regexp.MustCompile(`(?m)^\s*//\s*\+k8s:openapi`),
}

// A tagged package may have tags of code generators.
type tagged struct {
	path, dir string
	tags      map[string]bool
}

// findTagged returns packages with their tags of code generators, in the order of their directories.
func findTagged(ctx context.Context, paths []string) ([]tagged, error) {
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Mode: packages.NeedName | packages.NeedFiles, BuildFlags: []string{"-tags=" + gengo.StdBuildTag},
	}, paths...)
	if err != nil {
		return nil, plainly(err)
	}
	var all []tagged
	var failed []error
	for _, p := range loaded {
		for _, err := range p.Errors {
			failed = append(failed, problemOf(err))
		}
		t := tagged{path: p.PkgPath, tags: map[string]bool{}}
		for _, file := range p.GoFiles {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			t.dir = filepath.Dir(file)
			failed = append(failed, misspelt(file, data)...)
			for name, tag := range tags {
				t.tags[name] = t.tags[name] || tag.Match(data)
			}
		}
		if t.dir != "" {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b tagged) int { return strings.Compare(a.dir, b.dir) })
	return all, errors.Join(unique(failed)...)
}

// knownTags are the tags of the code generators, without their values and what follows a second colon.
var knownTags = []string{
	"genclient",
	"k8s:applyconfiguration-gen", "k8s:client-gen", "k8s:conversion-gen", "k8s:conversion-gen-external-types", "k8s:deepcopy-gen",
	"k8s:defaulter-gen", "k8s:defaulter-gen-input", "k8s:informer-gen", "k8s:lister-gen", "k8s:openapi-gen", "k8s:openapi-model-package",
	"k8s:prerelease-lifecycle-gen", "k8s:protobuf-gen", "k8s:register-gen", "k8s:validation-gen", "k8s:validation-gen-input",
	"k8s:validation-gen-scheme-registry", "k8s:validation-gen-test-fixture",
}

// tagLine matches a tag that may be one of these.
var tagLine = regexp.MustCompile(`(?m)^[ \t]*//[ \t]*\+((?:k8s:)?[a-zA-Z0-9-]+)`)

// misspelt returns an error for each tag that is nearly one of the code generators, which ignore it. Tags
// that are like none belong to other programs.
func misspelt(file string, data []byte) (all []error) {
	for _, at := range tagLine.FindAllSubmatchIndex(data, -1) {
		name := string(data[at[2]:at[3]])
		if slices.Contains(knownTags, name) {
			continue
		}
		for _, known := range knownTags {
			if d := distance(strings.ToLower(name), known); d <= 2 {
				line := 1 + bytes.Count(data[:at[2]], []byte("\n"))
				all = append(all, Problem{token.Position{Filename: relative(file), Line: line}, fmt.Sprintf("unknown tag +%s (did you mean +%s?)", name, known)})
				break
			}
		}
	}
	return all
}
