package importcrd_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/importcrd"
	"github.com/kapok-dev/kapok/toolkit/internal/corpus"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// known are the differences that are left, by definition.
var known = map[string][]string{
	// controller-gen merges allOf into the schema around it.
	"scrapeconfigs.monitoring.coreos.com": {"service.allOf", "service.enum"},
	// Required fields of lists, which have no fields.
	"apisixroutes.apisix.apache.org": {"backends.required", "plugins.required"},
}

// impossible are definitions that have no Go types, with the error.
var impossible = map[string]string{
	"postgresqls.acid.zalan.do": `the kind "postgresql" of postgresqls.acid.zalan.do is not a valid exported name in Go`,
}

// TestRoundTrip imports the definitions of operators. The definitions that are generated from the
// types are the same, and objects are the same after they were decoded into the types and encoded
// again.
func TestRoundTrip(t *testing.T) {
	all := corpus.Definitions(t)
	inModule(t)
	definitions := slices.DeleteFunc(all, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		want := impossible[crd.Name]
		if want == "" {
			return false
		}
		dir := t.TempDir()
		corpus.Write(t, dir, []*apiextensionsv1.CustomResourceDefinition{crd})
		if _, err := importcrd.Run(t.Context(), importcrd.Options{Files: []string{dir}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", crd.Name, err, want)
		}
		return true
	})
	dir := t.TempDir()
	corpus.Write(t, dir, definitions)
	result, err := importcrd.Run(t.Context(), importcrd.Options{Files: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d definitions", len(result.Definitions))
	if len(result.Definitions) != len(definitions) || len(definitions) < 200 {
		t.Errorf("%d of %d definitions are imported", len(result.Definitions), len(definitions))
	}
	for name, differences := range result.Differences {
		for _, difference := range differences {
			if !slices.ContainsFunc(known[name], func(part string) bool { return strings.Contains(difference, part+":") }) {
				t.Errorf("%s: %s", name, difference)
			}
		}
	}
	checkObjects(t, definitions)
}

// echo is a program that decodes each line of its input into the type of the object, and prints
// what the type is encoded to.
const echo = `package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

%s)

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{%s} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var is struct{ APIVersion, Kind string }
		if err := json.Unmarshal(lines.Bytes(), &is); err != nil {
			panic(err)
		}
		object, err := scheme.New(schema.FromAPIVersionAndKind(is.APIVersion, is.Kind))
		if err != nil {
			panic(err)
		}
		if err := utiljson.Unmarshal(lines.Bytes(), object); err != nil {
			fmt.Printf("%%q\n", err)
			continue
		}
		text, err := json.Marshal(object.DeepCopyObject())
		if err != nil {
			panic(err)
		}
		fmt.Printf("%%s\n", text)
	}
}
`

// checkObjects decodes and encodes random objects of the definitions by the types.
func checkObjects(t *testing.T, definitions []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	const rounds = 10
	var imports, adds string
	var input bytes.Buffer
	packages := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	for _, crd := range definitions {
		for _, v := range crd.Spec.Versions {
			pkg := "example.com/operator/apis/" + crd.Spec.Group + "/" + v.Name
			if !packages[pkg] {
				imports += fmt.Sprintf("\tp%d %q\n", len(packages), pkg)
				adds += fmt.Sprintf("p%d.AddToScheme, ", len(packages))
				packages[pkg] = true
			}
			for range rounds {
				object, _ := sample(random, v.Schema.OpenAPIV3Schema, 0).(map[string]any)
				object["apiVersion"], object["kind"] = crd.Spec.Group+"/"+v.Name, crd.Spec.Names.Kind
				object["metadata"] = map[string]any{"name": "x"}
				line, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				input.Write(append(line, '\n'))
			}
		}
	}
	if err := os.MkdirAll("echo", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("echo/main.go", fmt.Appendf(nil, echo, imports, adds), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "go", "build", "-ldflags=-s -w", "-o", "echo.exe", "./echo")
	lines := bytes.Split(bytes.TrimSpace(input.Bytes()), []byte("\n"))
	cmd := exec.Command("./echo.exe")
	cmd.Stdin = &input
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-4000):])
	}
	answers := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(answers) {
		t.Fatalf("%d answers to %d objects", len(answers), len(lines))
	}
	failed := 0
	for i := range lines {
		var want, got any
		if err := json.Unmarshal(lines[i], &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answers[i], &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) && failed < 10 {
			failed++
			t.Errorf("%s\nis encoded as\n%s", lines[i], answers[i])
		}
	}
	t.Logf("%d objects of %d versions", len(lines), len(lines)/rounds)
}

// element is sample for a value in a list or a map, which can be null.
func element(random *rand.Rand, s *apiextensionsv1.JSONSchemaProps, depth int) any {
	if s.Nullable && random.IntN(3) == 0 {
		return nil
	}
	return sample(random, s, depth)
}

// sample returns a random value that a schema allows, with zero values and empty lists, but without
// what Go types are known to write in another way, such as fractions of seconds.
func sample(random *rand.Rand, s *apiextensionsv1.JSONSchemaProps, depth int) any {
	preserves := s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	switch {
	case len(s.Enum) > 0:
		var value any
		if err := json.Unmarshal(s.Enum[random.IntN(len(s.Enum))].Raw, &value); err != nil {
			panic(err)
		}
		return value
	case s.XIntOrString && strings.Contains(s.Pattern, "numkMGTPE"):
		return []any{"0", "1", "10m", "4Gi"}[random.IntN(4)]
	case s.XIntOrString:
		return []any{0, 7, "", "10%"}[random.IntN(4)]
	case s.XEmbeddedResource:
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"a": "b"}}
	}
	switch s.Type {
	case "object":
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			property := s.Properties[name]
			if slices.Contains(s.Required, name) || depth < 12 && random.IntN(3) > 0 {
				object[name] = sample(random, &property, depth+1)
			}
		}
		if of := s.AdditionalProperties; of != nil && of.Schema != nil {
			for _, name := range []string{"", "a", "b/c"}[:random.IntN(4)] {
				object[name] = element(random, of.Schema, depth+1)
			}
		}
		if preserves && random.IntN(2) == 0 {
			object["other-field"] = map[string]any{"a": []any{1, "b", nil}}
		}
		return object
	case "array":
		list := []any{}
		if s.Items != nil && s.Items.Schema != nil {
			for range random.IntN(3) {
				list = append(list, element(random, s.Items.Schema, depth+1))
			}
		}
		return list
	case "string":
		switch {
		case s.Format == "date-time":
			return "2026-01-02T03:04:05Z"
		case s.Format == "byte" && s.MinLength != nil && *s.MinLength > 0:
			return base64.StdEncoding.EncodeToString([]byte{0, 255}[:1+random.IntN(2)])
		case s.Format == "byte":
			return base64.StdEncoding.EncodeToString([]byte{0, 255}[:random.IntN(3)])
		case s.MinLength != nil && *s.MinLength > 0:
			return "<x> &"
		}
		return []any{"", "x"}[random.IntN(2)]
	case "integer", "number":
		values := []any{0, 1, -1, 123456789}
		if s.Type == "number" {
			values = append(values, 1.5, 1e300)
		}
		values = slices.DeleteFunc(values, func(v any) bool {
			f := reflect.ValueOf(v)
			if f.CanInt() {
				f = f.Convert(reflect.TypeFor[float64]())
			}
			return s.Minimum != nil && f.Float() < *s.Minimum || s.Maximum != nil && f.Float() > *s.Maximum
		})
		if len(values) == 0 {
			return *s.Minimum
		}
		return values[random.IntN(len(values))]
	case "boolean":
		return random.IntN(2) == 0
	}
	return []any{"x", 1, map[string]any{"a": []any{true, nil}}, []any{}}[random.IntN(4)]
}
