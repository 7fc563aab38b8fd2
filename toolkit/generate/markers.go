package generate

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// elsewhere are prefixes of markers that other programs read: those that scaffold and document a
// project.
var elsewhere = []string{"kubebuilder:scaffold:", "kubebuilder:docs-gen:"}

// ours is the prefix of markers that only generators of controller-tools read. Others, as +k8s: and
// +genclient, have several readers: only those are errors that are nearly a known one.
const ours = "kubebuilder:"

// A markerBook has the markers of all generators: the registry of a run knows only those of the
// generators that run.
type markerBook struct {
	*markers.Registry
	names []string // sorted
}

func newMarkerBook() (*markerBook, error) {
	b := &markerBook{Registry: &markers.Registry{}}
	for _, g := range generators() {
		if err := g.RegisterMarkers(b.Registry); err != nil {
			return nil, err
		}
	}
	for _, d := range b.AllDefinitions() {
		b.names = append(b.names, d.Name)
	}
	slices.Sort(b.names)
	b.names = slices.Compact(b.names)
	return b, nil
}

// doc returns the first sentence of the documentation of a marker, after its name; "" if there is
// none.
func (b *markerBook) doc(name string) string {
	for _, d := range b.AllDefinitions() {
		if d.Name != name {
			continue
		}
		if help := b.HelpFor(d); help != nil && help.Summary != "" {
			first, _, _ := strings.Cut(strings.Join(strings.Fields(help.Summary+" "+help.Details), " "), ". ")
			return "+" + name + ": " + strings.TrimSuffix(first, ".")
		}
	}
	return ""
}

// definition returns the definition of a marker, such as +kubebuilder:validation:MinLength=3, nil
// if it is unknown.
func (b *markerBook) definition(marker string) *markers.Definition {
	for _, at := range []markers.TargetType{markers.DescribesField, markers.DescribesType, markers.DescribesPackage} {
		if d := b.Lookup(marker, at); d != nil {
			return d
		}
	}
	return nil
}

// markerIn returns the marker in a comment, with its plus sign; "" if there is none.
func markerIn(comment *ast.Comment) string {
	text, isLine := strings.CutPrefix(comment.Text, "//")
	if marker := strings.TrimSpace(text); isLine && strings.HasPrefix(marker, "+") {
		return marker
	}
	return ""
}

// eachMarker calls a function for each marker in packages.
func eachMarker(roots []*loader.Package, call func(group *ast.CommentGroup, at *ast.Comment, marker string)) {
	for _, root := range roots {
		root.NeedSyntax()
		for _, file := range root.Syntax {
			for _, group := range file.Comments {
				for _, comment := range group.List {
					if marker := markerIn(comment); marker != "" {
						call(group, comment, marker)
					}
				}
			}
		}
	}
}

// unknown returns an error for each marker that no generator knows, in the packages to generate
// for.
func (b *markerBook) unknown(roots []*loader.Package, files *token.FileSet) (found []error) {
	eachMarker(roots, func(_ *ast.CommentGroup, comment *ast.Comment, marker string) {
		name, _, _ := strings.Cut(strings.TrimPrefix(marker, "+"), "=")
		if !strings.HasPrefix(name, ours) && b.definition(marker) == nil {
			if name, known := nearTag([]byte(marker[1:]), b.names, knownTags, validationTags); known != "" {
				message := fmt.Sprintf("unknown marker +%s (did you mean +%s?)", name, known)
				found = append(found, Problem{At: position(files, comment.Pos()), Message: message, Doc: b.doc(known)})
			}
			return
		}
		if slices.ContainsFunc(elsewhere, func(p string) bool { return strings.HasPrefix(name, p) }) || b.definition(marker) != nil {
			return
		}
		problem := Problem{At: position(files, comment.Pos()), Message: "unknown marker +" + name + didYouMean(name, b.names, "+")}
		if known := nearest(name, b.names); known != "" {
			problem.Doc = b.doc(known)
		}
		found = append(found, problem)
	})
	return found
}

// mustApply matches the message about a marker on a field of another type.
var mustApply = regexp.MustCompile(`^must apply (\S+) to `)

// explain adds to errors about markers the names and the documentation of these. The position of an
// error is that of the marker, or that of its field or type.
func (b *markerBook) explain(errs []error, roots []*loader.Package, files *token.FileSet) {
	type place struct {
		file string
		line int
	}
	at := map[place][]int{}
	for i, err := range errs {
		if p, ok := err.(Problem); ok && p.Doc == "" && p.At.IsValid() {
			at[place{p.At.Filename, p.At.Line}] = append(at[place{p.At.Filename, p.At.Line}], i)
		}
	}
	if len(at) == 0 {
		return
	}
	eachMarker(roots, func(group *ast.CommentGroup, comment *ast.Comment, marker string) {
		d := b.definition(marker)
		if d == nil {
			return
		}
		here := position(files, comment.Pos())
		for _, i := range at[place{here.Filename, here.Line}] {
			if p := errs[i].(Problem); p.At.Column == here.Column {
				p.Message, p.Doc = "+"+d.Name+": "+p.Message, b.doc(d.Name)
				errs[i] = p
			}
		}
		below := position(files, group.End())
		for _, i := range at[place{below.Filename, below.Line + 1}] {
			p := errs[i].(Problem)
			match := mustApply.FindStringSubmatch(p.Message)
			if match != nil && strings.EqualFold(d.Name[strings.LastIndexByte(d.Name, ':')+1:], match[1]) {
				p.At, p.Message, p.Doc = here, "+"+d.Name+": "+p.Message, b.doc(d.Name)
				errs[i] = p
			}
		}
	})
}

// didYouMean returns a suggestion for a misspelt name, "" if no known name is near.
func didYouMean(name string, known []string, prefix string) string {
	best := nearest(name, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", prefix, best)
}

// nearest returns the known name that is most like a misspelt one, "" if none is near. The last
// parts of names differ most.
func nearest(name string, known []string) string {
	best, least := "", max(2, len(name)/5)+1
	last := lastPart(name)
	for _, candidate := range known {
		for _, form := range []string{candidate, strings.ReplaceAll(candidate, ":", "")} {
			d := distance(strings.ToLower(name), strings.ToLower(form))
			switch of := lastPart(candidate); {
			case form != candidate:
			case len(last) >= 4 && strings.Contains(of, last): // OneOf of ExactlyOneOf
				d = min(d, 3)
			case distance(last, of) > max(2, len(last)/2):
				continue
			}
			if d < least {
				best, least = candidate, d
			}
		}
	}
	return best
}

// lastPart returns what follows the last colon of a name, in lower case.
func lastPart(name string) string {
	return strings.ToLower(name[strings.LastIndexByte(name, ':')+1:])
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
