package house

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	goBlock = regexp.MustCompile("(?ms)^(?:<!-- (.*?) -->\n)?```go\n(.*?)^```$")
	goLine  = regexp.MustCompile(`(?m)^    +(package \w+$|func [\w(]|type \w+ \w|(\w+, )*\w+ := ).*`)
	elision = regexp.MustCompile(`(?m)^\s*\.\.\.$`)
	foreign = regexp.MustCompile(`(?m)^.*"sigs\.k8s\.io/controller-runtime.*\n`)
)

// elsewhere begins the comment, hidden from readers, before a block that another test checks.
const elsewhere = "checked by "

// TestDocumentedGo type-checks the Go code of all documents. A block is a file, declarations,
// statements, or the imports that replace those of controller-runtime in the block before. Imports
// and names that the fragments of a document leave open are declared in testdata/code/NAME.go,
// where NAME is a prefix of the name of the document.
func TestDocumentedGo(t *testing.T) {
	var snippets []snippet
	for name, text := range markdown(t) {
		if line := goLine.FindString(text); line != "" {
			t.Errorf("%s has Go code outside of a block: put it between ```go and ```:\n%s", name, line)
		}
		snippets = append(snippets, snippetsOf(t, name, text)...)
	}
	if len(snippets) < 12 {
		t.Fatalf("only %d blocks of Go code were found", len(snippets))
	}
	c := newChecker(t, snippets)
	for _, s := range snippets {
		for _, err := range c.check(s) {
			t.Error(err)
		}
	}
}

// TestDocumentedGoFails checks that code with errors does not pass.
func TestDocumentedGoFails(t *testing.T) {
	open := "package open\n\nimport \"" + module + "/workqueue\"\n\nvar queue *workqueue.Queue[string]"
	c := newChecker(t, []snippet{{open: open}})
	for _, tc := range []struct{ text, want string }{
		{"unused := workqueue.New(workqueue.Options[int]{})\n...\nunused.Add(1)", ""},
		{"func f() { queue.Add(\"a\") }", ""},
		{"workqueue.Old()", "a.md:7:11: undefined: workqueue.Old"},
		{"queue.Drop()", "a.md:7:7: queue.Drop undefined"},
		{"func f() { queue.Add(1) }", "a.md:7:22: cannot use 1"},
		{"workqueue.New(workqueue.Options[int]{Speed: 1})", "unknown field Speed"},
		{"queue.Add(", "a.md:7:1: expected declaration"},
		{"package p\n\nimport \"fmt\"\n\nvar _ = fmt.Skip", "a.md:11:13: undefined: fmt.Skip"},
	} {
		err := errors.Join(c.check(snippet{"a.md", 7, tc.text, open})...)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("check returns %v, want %q, for:\n%s", err, tc.want, tc.text)
		}
	}
}

// A snippet is Go code of a document.
type snippet struct {
	document string
	line     int
	text     string
	open     string // a file that declares what the document leaves open
}

// snippetsOf returns the Go code of a document, except for blocks that other tests check and those
// for controller-runtime, which this module does not require.
func snippetsOf(t *testing.T, document, text string) (snippets []snippet) {
	t.Helper()
	opens, err := filepath.Glob(filepath.Join("testdata", "code", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var open []byte
	for _, name := range opens {
		if !strings.HasPrefix(filepath.Base(document), strings.TrimSuffix(filepath.Base(name), ".go")) {
			continue
		}
		if open, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	before := "" // a file for controller-runtime
	for _, at := range goBlock.FindAllStringSubmatchIndex(text, -1) {
		if at[2] >= 0 && strings.HasPrefix(text[at[2]:at[3]], elsewhere) {
			continue
		}
		block := text[at[4]:at[5]]
		if foreign.MatchString(block) {
			before = block
			continue
		}
		if imports, ok := strings.CutPrefix(block, "import (\n"); ok && strings.Count(imports, ")") == 1 && before != "" {
			imports = strings.TrimSuffix(imports, ")\n")
			first := foreign.FindStringIndex(before)[0]
			block = before[:first] + imports + foreign.ReplaceAllString(before[first:], "")
		}
		snippets = append(snippets, snippet{document, strings.Count(text[:at[4]], "\n") + 1, block, string(open)})
	}
	return snippets
}

// A checker type-checks snippets. They may import what is in the build list of the module.
type checker struct {
	files    *token.FileSet
	packages types.Importer
}

// newChecker builds what the snippets import, and returns a checker for them.
func newChecker(t *testing.T, snippets []snippet) checker {
	t.Helper()
	files := token.NewFileSet()
	list := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, s := range snippets {
		for _, source := range []string{s.open, s.text} {
			file, err := parser.ParseFile(files, s.document, source, parser.ImportsOnly)
			if err != nil {
				continue // a fragment
			}
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, path)
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", list...).Output()
	if err != nil {
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			t.Fatalf("go list: %v\n%s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return checker{files, importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
}

// check returns the errors of a snippet, except for variables and imports that it does not use.
func (c checker) check(s snippet) (problems []error) {
	files, err := c.parse(s)
	if err != nil {
		return []error{err}
	}
	config := types.Config{Importer: c.packages, Error: func(err error) {
		if e := (types.Error{}); errors.As(err, &e) && e.Soft {
			return
		}
		problems = append(problems, err)
	}}
	_, _ = config.Check("open", c.files, files, nil) // its error is the first of problems
	return problems
}

// parse returns the files of the package that has the snippet. Their errors have the place in the
// document.
func (c checker) parse(s snippet) ([]*ast.File, error) {
	place := "//line " + s.document + ":" + strconv.Itoa(s.line) + ":1\n"
	text := place + elision.ReplaceAllString(s.text, "")
	if strings.HasPrefix(s.text, "package ") {
		file, err := parser.ParseFile(c.files, "", text, parser.SkipObjectResolution)
		return []*ast.File{file}, err
	}
	head := "package open\n"
	var files []*ast.File
	if s.open != "" {
		open, err := parser.ParseFile(c.files, "testdata/code", s.open, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, open)
		for _, spec := range open.Imports {
			head += "import "
			if spec.Name != nil {
				head += spec.Name.Name + " "
			}
			head += spec.Path.Value + "\n"
		}
	}
	file, wrong := parser.ParseFile(c.files, "", head+text, parser.SkipObjectResolution)
	if wrong != nil {
		statements, err := parser.ParseFile(c.files, "", head+"func _() {\n"+text+"\n}\n", parser.SkipObjectResolution)
		if err != nil {
			return nil, errors.Join(wrong, err)
		}
		file = statements
	}
	return append(files, file), nil
}
