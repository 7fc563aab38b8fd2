package generate

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// elsewhere are prefixes of markers that other programs read: those that scaffold and document a
// project.
var elsewhere = []string{"kubebuilder:scaffold:", "kubebuilder:docs-gen:"}

// ours are the prefixes of markers that only generators of controller-tools read. Others, as +k8s: and
// +genclient, have several readers.
const ours = "kubebuilder:"

// unknownMarkers returns an error for each marker that no generator knows, in the packages to generate
// for. A registry knows only the markers of the generators that run, and so the markers of all
// generators are looked up.
func unknownMarkers(roots []*loader.Package, files *token.FileSet) []error {
	all := &markers.Registry{}
	var names []string
	for _, g := range generators() {
		if err := g.RegisterMarkers(all); err != nil {
			return []error{err}
		}
	}
	for _, d := range all.AllDefinitions() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	var found []error
	for _, root := range roots {
		root.NeedSyntax()
		for _, file := range root.Syntax {
			found = append(found, unknownIn(files, file, all, slices.Compact(names))...)
		}
	}
	return found
}

func unknownIn(files *token.FileSet, file *ast.File, known *markers.Registry, names []string) []error {
	var found []error
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text, isLine := strings.CutPrefix(comment.Text, "//")
			marker, isMarker := strings.CutPrefix(strings.TrimSpace(text), "+")
			if !isLine || !isMarker || !strings.HasPrefix(marker, ours) || slices.ContainsFunc(elsewhere, func(p string) bool { return strings.HasPrefix(marker, p) }) {
				continue
			}
			if knows(known, marker) {
				continue
			}
			name, _, _ := strings.Cut(marker, "=")
			found = append(found, Problem{position(files, comment.Pos()), fmt.Sprintf("unknown marker +%s%s", name, didYouMean(name, names, "+"))})
		}
	}
	return found
}

func knows(known *markers.Registry, marker string) bool {
	return slices.ContainsFunc([]markers.TargetType{markers.DescribesPackage, markers.DescribesType, markers.DescribesField}, func(at markers.TargetType) bool {
		return known.Lookup("+"+marker, at) != nil
	})
}

// didYouMean returns a suggestion for a misspelt name, "" if no known name is near.
func didYouMean(name string, known []string, prefix string) string {
	best, least := "", max(2, len(name)/5)+1
	for _, candidate := range known {
		for _, form := range []string{candidate, strings.ReplaceAll(candidate, ":", "")} {
			if d := distance(strings.ToLower(name), strings.ToLower(form)); d < least {
				best, least = candidate, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", prefix, best)
}

// distance is the number of letters to insert, delete or replace to make a of b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
