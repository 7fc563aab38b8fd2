// Package kindtest helps tests of the built-in kinds: it finds their definitions, decodes objects
// from YAML, and opens a store of all kinds.
package kindtest

import (
	"embed"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Container is a container that any pod may have.
const Container = `{name: c, image: "i:1"}`

// Now is the time at which tests print cells.
var Now = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// Definition returns the definition with a plural. It fails the test if there is none.
func Definition(t testing.TB, plural string) *resource.Definition {
	t.Helper()
	for _, d := range kinds.Definitions() {
		if d.Plural == plural {
			return d
		}
	}
	t.Fatalf("no definition of %s", plural)
	return nil
}

// Version returns a version of the definition in its own group.
func Version(d *resource.Definition, version string) *resource.Version {
	return d.Version(schema.GroupVersion{Group: d.Group, Version: version})
}

// Decode decodes YAML and applies defaults.
func Decode(t testing.TB, plural, text string) resource.Tree {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Definition(t, plural).Storage.Model.Decode(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// New decodes YAML and prepares it like a new object.
func New(t testing.TB, plural, text string) resource.Tree {
	t.Helper()
	tree := Decode(t, plural, text)
	kind.Put(tree, "u1", "metadata", "uid")
	Definition(t, plural).Strategy.PrepareCreate(tree)
	return tree
}

// Parse returns YAML as a tree, without defaults.
func Parse(t testing.TB, text string) resource.Tree {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	return integers(u.Object).(resource.Tree)
}

// integers converts whole numbers to int64, as trees have them.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = integers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// Messages returns the errors as clients see them.
func Messages(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

//go:embed testdata/*.yaml
var samples embed.FS

// Sample returns a valid object of a kind: one file each, named like kubectl's names of resources.
func Sample(t testing.TB, plural string) string {
	t.Helper()
	gr := Definition(t, plural).GroupResource()
	data, err := samples.ReadFile("testdata/" + gr.String() + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Message returns the text of an error, "" for nil.
func Message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Says reports whether an error contains want; for "" it must be nil.
func Says(err error, want string) bool {
	if want == "" || err == nil {
		return want == "" && err == nil
	}
	return strings.Contains(err.Error(), want)
}
