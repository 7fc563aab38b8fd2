package kapoktest_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"
)

// TestDocumentedFirstTest checks that the documentation begins with a whole test file, one of the
// examples, and that its reference has a line of another example for each change of an object.
func TestDocumentedFirstTest(t *testing.T) {
	document := read(t, "../docs/testing.md")
	_, rest, _ := strings.Cut(document, "```go\n")
	first, _, closed := strings.Cut(rest, "```\n")
	if want := read(t, "../examples/first/first_test.go"); !closed || first != want {
		t.Errorf("docs/testing.md shows\n%s\nand examples/first/first_test.go is\n%s", first, want)
	}
	if n := strings.Count(document[:strings.Index(document, "```go\n")], "\n"); n > 10 {
		t.Errorf("it is shown after %d lines", n)
	}
	reference, updates := read(t, "../docs/testing-reference.md"), read(t, "../examples/first/update_test.go")
	for _, method := range []string{"Update", "UpdateStatus"} {
		line := regexp.MustCompile(`(?m)^(env\.` + method + `\(.*)$`).FindStringSubmatch(reference)
		if line == nil || !strings.Contains(updates, "\t"+line[1]+"\n") {
			t.Errorf("docs/testing-reference.md shows for env.%s %q, which examples/first/update_test.go does not have", method, line)
		}
	}
}

// TestDocumentedMethods checks that each method of an Env in the documents about tests exists, with
// as many parameters as shown.
func TestDocumentedMethods(t *testing.T) {
	env := reflect.TypeFor[*kapoktest.Env]()
	documents, err := filepath.Glob("../docs/testing*.md")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, document := range documents {
		text += read(t, document)
	}
	n := 0
	for _, mention := range regexp.MustCompile("`env\\.(\\w+)(?:\\(([^()`]*)\\)`)?").FindAllStringSubmatch(text, -1) {
		method, found := env.MethodByName(mention[1])
		if !found {
			t.Errorf("there is no %s", mention[0])
			continue
		}
		if mention[2] == "" {
			continue // without parameters
		}
		n++
		if wants, has := method.Type.NumIn()-1, strings.Count(mention[2], ",")+1; has != wants {
			t.Errorf("%s has %d parameters, and not %d", mention[0], wants, has)
		}
	}
	if n < 10 {
		t.Errorf("found %d methods", n)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
