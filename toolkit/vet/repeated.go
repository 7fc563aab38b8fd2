package vet

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/toolkit/generate"

	"sigs.k8s.io/controller-tools/pkg/markers"
)

// repeated returns a problem for each marker with one value that a field or type has several times:
// the generator takes the last one.
func repeated(d *generate.Definitions) []generate.Problem {
	var problems []generate.Problem
	for _, root := range d.Context.Roots {
		root.NeedSyntax()
		for _, file := range root.Syntax {
			for group, at := range placesIn(d.Files, file) {
				if group == nil || at != atField && at != atType {
					continue
				}
				before := map[string]*ast.Comment{}
				for _, comment := range group.List {
					name := singleValued(d.Known, comment)
					if first := before[name]; name != "" && first != nil {
						problems = append(problems, generate.Problem{
							At: d.Position(comment.Pos()), Message: fmt.Sprintf("+%s is repeated: line %d has it, too, and the last one counts", name, d.Position(first.Pos()).Line),
						})
					}
					before[name] = comment
				}
			}
		}
	}
	return problems
}

// several are markers for validation that may be repeated.
var several = []string{
	"kubebuilder:validation:XValidation", "kubebuilder:validation:items:XValidation",
	"kubebuilder:validation:ExactlyOneOf", "kubebuilder:validation:AtMostOneOf", "kubebuilder:validation:AtLeastOneOf",
}

// single are further markers with one value.
var single = []string{"default", "kubebuilder:default", "kubebuilder:example", "kubebuilder:title", "listType", "mapType", "structType"}

// singleValued returns the name of the marker in a comment if it has one value, otherwise "".
func singleValued(known *markers.Registry, comment *ast.Comment) string {
	text, isLine := strings.CutPrefix(comment.Text, "//")
	marker := strings.TrimSpace(text)
	if !isLine || !strings.HasPrefix(marker, "+") {
		return ""
	}
	for _, at := range []markers.TargetType{markers.DescribesField, markers.DescribesType} {
		definition := known.Lookup(marker, at)
		if definition == nil {
			continue
		}
		name := definition.Name
		if strings.HasPrefix(name, "kubebuilder:validation:") && !slices.Contains(several, name) || slices.Contains(single, name) {
			return name
		}
	}
	return ""
}
