package vet

import (
	"context"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer is Run as a pass for go vet -vettool.
var Analyzer = &analysis.Analyzer{
	Name: "kubernetesapi",
	Doc:  "check the types of Kubernetes APIs, and their markers for generators",
	URL:  "https://github.com/kapok-dev/kapok/blob/main/docs/toolkit.md",
	Run:  analyze,
}

// analyze checks a package that has markers. go vet runs a process for each package.
func analyze(pass *analysis.Pass) (any, error) {
	if len(pass.Files) == 0 || !hasMarkers(pass) {
		return nil, nil
	}
	dir := filepath.Dir(pass.Fset.Position(pass.Files[0].Package).Filename)
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	problems, err := Run(context.Background(), []string{"."})
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		pass.Reportf(find(pass, dir, problem.At), "%s", problem.Message)
	}
	return nil, nil
}

// hasMarkers reports whether a package has markers of an API in files that are no tests.
func hasMarkers(pass *analysis.Pass) bool {
	for _, file := range pass.Files {
		if strings.HasSuffix(pass.Fset.Position(file.Package).Filename, "_test.go") {
			continue
		}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				marker := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
				if strings.HasPrefix(marker, "+kubebuilder:") || strings.HasPrefix(marker, "+groupName=") {
					return true
				}
			}
		}
	}
	return false
}

// find returns a position in the files of a pass, or that of the first file.
func find(pass *analysis.Pass, dir string, position token.Position) token.Pos {
	for _, file := range pass.Files {
		at := pass.Fset.File(file.Package)
		name := position.Filename
		if at.Name() != name && at.Name() != filepath.Join(dir, name) || position.Line < 1 || position.Line > at.LineCount() {
			continue
		}
		return at.LineStart(position.Line) + token.Pos(max(0, position.Column-1))
	}
	return pass.Files[0].Package
}
