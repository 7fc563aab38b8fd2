package derive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/internal/corpus"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/yaml"
)

// kindsOfOperators returns all versions of kinds in the corpus.
func kindsOfOperators(t *testing.T) []kind {
	t.Helper()
	var all []kind
	for _, definition := range corpus.Definitions(t) {
		all = append(all, served(definition)...)
	}
	if len(all) < 200 {
		t.Fatalf("only %d kinds were found", len(all))
	}
	return all
}

// accepts validates an object as the server does.
func accepts(t *testing.T, k kind, object any) error {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(k.schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	return validation.ValidateCustomResource(nil, object, validator).ToAggregate()
}

// TestSamplesOfOperators generates samples and JSON schemas of the definitions of operators. Of the
// samples, most are valid for the server, and what a JSON schema says of one is what the server
// says.
func TestSamplesOfOperators(t *testing.T) {
	valid, all := 0, kindsOfOperators(t)
	for _, k := range all {
		name := k.apiVersion() + " " + k.name
		var sample map[string]any
		if err := yaml.UnmarshalStrict(sampleOf(k), &sample); err != nil {
			t.Errorf("%s: the sample is no YAML: %v\n%s", name, err, sampleOf(k))
			continue
		}
		verdict := accepts(t, k, sample)
		if verdict == nil {
			valid++
		}
		byJSON := schemaOf(t, k)
		if err := byJSON.Validate(sample); (err == nil) != (verdict == nil) && !outOfRange(verdict) {
			t.Errorf("%s: the JSON schema says %v, the server %v", name, err, verdict)
		}
		if k.schema.XPreserveUnknownFields == nil {
			sample["unknownField"] = 1
			if byJSON.Validate(sample) == nil {
				t.Errorf("%s: the JSON schema accepts an unknown field", name)
			}
		}
	}
	t.Logf("%d of %d samples are valid", valid, len(all))
	if valid*10 < len(all)*9 {
		t.Errorf("only %d of %d samples are valid", valid, len(all))
	}
}

// outOfRange reports whether a server rejects a number for its limit, which is out of the range of
// its format. A JSON schema has no such rule; kapok vet finds it.
func outOfRange(verdict error) bool {
	return verdict != nil && strings.Contains(verdict.Error(), "boundary value must be of type integer with format int32")
}

func schemaOf(t *testing.T, k kind) *jsonschema.Schema {
	t.Helper()
	data, err := json.Marshal(document(k))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("kind.json", text); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("kind.json")
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	return s
}

// TestTypesOfOperators parses the TypeScript of the definitions of operators.
func TestTypesOfOperators(t *testing.T) {
	groups := byVersion(kindsOfOperators(t))
	for _, apiVersion := range slices.Sorted(maps.Keys(groups)) {
		text := string(types(groups[apiVersion]))
		result := api.Transform(text, api.TransformOptions{Loader: api.LoaderTS})
		for _, e := range result.Errors {
			t.Errorf("%s: %s: %d: %s", apiVersion, e.Text, e.Location.Line, e.Location.LineText)
		}
		names := map[string]bool{}
		for _, match := range regexp.MustCompile(`(?m)^export interface (\w+)`).FindAllStringSubmatch(text, -1) {
			if names[match[1]] {
				t.Errorf("%s has two types %s", apiVersion, match[1])
			}
			names[match[1]] = true
		}
	}
}

// TestDocsOfOperators checks that each link of the documents of definitions of operators has one
// target.
func TestDocsOfOperators(t *testing.T) {
	for format, find := range map[string]struct{ link, anchor *regexp.Regexp }{
		"markdown": {regexp.MustCompile(`\]\(#([^)]*)\)`), regexp.MustCompile(`<a id="([^"]*)">`)},
		"html":     {regexp.MustCompile(`<a href="#([^"]*)"`), regexp.MustCompile(`id="([^"]*)"`)},
	} {
		groups := byVersion(kindsOfOperators(t))
		for _, apiVersion := range slices.Sorted(maps.Keys(groups)) {
			_, render, err := Docs{Format: format}.form()
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := render(&text, pageOf(groups[apiVersion])); err != nil {
				t.Fatal(err)
			}
			targets := map[string]int{}
			for _, match := range find.anchor.FindAllStringSubmatch(text.String(), -1) {
				targets[match[1]]++
			}
			for _, k := range groups[apiVersion] {
				if format == "markdown" { // headings are targets
					targets[strings.ToLower(k.name)]++
				}
			}
			for _, match := range find.link.FindAllStringSubmatch(text.String(), -1) {
				if targets[match[1]] != 1 {
					t.Errorf("%s, %s: the link #%s has %d targets", apiVersion, format, match[1], targets[match[1]])
				}
			}
		}
	}
	if _, _, err := (Docs{Format: "pdf"}).form(); err == nil || !strings.Contains(fmt.Sprint(err), `format "pdf": must be markdown or html`) {
		t.Errorf("the error is %v", err)
	}
}
