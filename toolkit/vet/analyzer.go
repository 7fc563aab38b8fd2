package vet

import (
	"context"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
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
		pass.Reportf(find(pass, dir, problem), "%s", message(problem))
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

// find returns the position in the files of a pass with which a problem begins, or that of the first file.
func find(pass *analysis.Pass, dir, problem string) token.Pos {
	parts := strings.SplitN(problem, ":", 4)
	if len(parts) < 3 {
		return pass.Files[0].Package
	}
	line, err := strconv.Atoi(parts[1])
	if err != nil {
		return pass.Files[0].Package
	}
	for _, file := range pass.Files {
		at := pass.Fset.File(file.Package)
		if name := at.Name(); name != filepath.Join(dir, parts[0]) && name != parts[0] || line < 1 || line > at.LineCount() {
			continue
		}
		column, err := strconv.Atoi(parts[2])
		if err != nil {
			column = 1
		}
		return at.LineStart(line) + token.Pos(column-1)
	}
	return pass.Files[0].Package
}

// message returns a problem without its position.
func message(problem string) string {
	if _, line := place(problem); line > 0 {
		if parts := strings.SplitN(problem, ":", 4); len(parts) == 4 {
			return strings.TrimSpace(parts[3])
		}
	}
	return problem
}
