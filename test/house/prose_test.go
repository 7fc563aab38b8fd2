package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// estranged are words and phrases with a person where a component acts: the subject of a sentence
// is the client, the caller, the server or the watch, and its verb is technical.
var estranged = regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|anybody|whoever|who has|who have|(is|are|was|were) told|in good order|may everything)\b|(^|[.(/]) ?one does not\b`)

// unrevised are directories whose prose is still to be revised, "/..." for all below. A directory
// without such words must leave the list.
var unrevised []string

// TestProse rejects estranged words in the comments of Go files, in the strings of those that are
// not tests, and in the documents.
func TestProse(t *testing.T) {
	found := map[string]bool{} // unrevised directories with such words
	report := func(file, where, text string) {
		for _, phrase := range estranged.FindAllString(text, -1) {
			i := slices.IndexFunc(unrevised, func(pattern string) bool { return matches([]string{pattern}, filepath.ToSlash(filepath.Dir(file))) })
			if i >= 0 {
				found[unrevised[i]] = true
				continue
			}
			t.Errorf("%s: %q: name the component that acts, and what it does", where, phrase)
		}
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case filepath.Ext(name) != ".go" || rel == filepath.Join("test", "house", "prose_test.go"):
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				report(rel, files.Position(c.Pos()).String(), c.Text)
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			return nil // names of users, and Kubernetes' words
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				report(rel, files.Position(literal.Pos()).String(), literal.Value)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range markdown(t) {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		report(rel, rel, code.ReplaceAllString(text, ""))
	}
	for _, directory := range unrevised {
		if !found[directory] {
			t.Errorf("%s is clean: take it off the list", directory)
		}
	}
}
