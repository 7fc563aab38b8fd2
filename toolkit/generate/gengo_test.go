package generate

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSimplifiable checks that all that gofmt -s simplifies is recognised: other files are not
// given to it.
func TestSimplifiable(t *testing.T) {
	for i, body := range []string{
		"var x = []T{T{1}, T{2}}", "var x = []*T{&T{1}}", "var x = map[string]T{\"a\": T{1}}", "var x = map[T]T{T{1}: T{2}}", "var x = [2]p.T{p.T{1}}", "var x = [...][]T{[]T{}}",
		"func f(s []T) []T { return s[1:len(s)] }", "func f(s []T) []T { return s[:len(s)] }", "func f(s []T) []T { return s[a+1 : len(s)] }",
		"func f(s []T) { for _ = range s {} }", "func f(s []T) { for _, _ = range s {} }", "func f(s []T) { for i, _ := range s {} }", "func f(s []T) { for i, _ = range s {} }",
	} {
		source, err := format.Source([]byte("package p\n\n" + body + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "a.go")
		if err := os.WriteFile(name, source, 0o644); err != nil {
			t.Fatal(err)
		}
		simple, err := exec.CommandContext(t.Context(), "gofmt", "-s", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(simple) == string(source) {
			t.Errorf("%d: gofmt does not simplify %s", i, source)
		}
		if !simplifiable.Match(source) {
			t.Errorf("%d: gofmt would simplify %s", i, source)
		}
	}
	if simplifiable.MatchString("func f(in *T) []T {\n\tfor k, v := range *in {\n\t\tm := make([]T, len(*in))\n\t}\n}\n") {
		t.Error("ordinary code is given to gofmt")
	}
}
