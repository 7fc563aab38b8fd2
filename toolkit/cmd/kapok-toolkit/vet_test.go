package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// TestVet makes mistakes in the types of an API that a server or a generator would find, or that
// would stay unnoticed.
func TestVet(t *testing.T) {
	p := newProject(t)
	t.Setenv(front.Self, program(t))
	good, err := os.ReadFile("../../derive/testdata/api/v1/types.go")
	if err != nil {
		t.Fatal(err)
	}
	p.write("go.mod", "module example.com/shop\n\ngo 1.26.0\n\nrequire k8s.io/apimachinery v0.37.2\n")
	if err := os.MkdirAll(filepath.Join(p.dir, "api", "v1"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("api/v1/types.go", string(good))
	p.tool("mod", "tidy")
	if out := p.must("vet"); out != "" {
		t.Errorf("good types:\n%s", out)
	}
	for _, test := range []struct{ name, from, to, at, want string }{
		{"a rule that does not compile", "self.metadata.name.size()", "self.metadata.nam.size()", "// +kubebuilder:validation:XValidation", "undefined field 'nam'"},
		{
			"a rule that costs too much", "	// +optional\n	Labels", "	// +kubebuilder:validation:XValidation:rule=\"self.all(k, self.all(j, self.all(l, self[k] != self[j] || self[l] == k)))\"\n	Labels",
			"type Order struct", "estimated rule cost exceeds budget",
		},
		{"a default", "default=Bike", "default=Car", "	// +kubebuilder:default=Car", `Unsupported value: "Car"`},
		{"a key of a list", "listMapKey=name", "listMapKey=nam", "	// +listType=map", "entries must all be names of item properties"},
		{"no key of a list", "	// +listMapKey=name\n", "", "	// +listType=map", "must not be empty if x-kubernetes-list-type is map"},
		{"a marker for types", "	// +optional\n	Labels", "	// +kubebuilder:resource:scope=Cluster\n	Labels", "	// +kubebuilder:resource", "+kubebuilder:resource has no effect here: it belongs on a type"},
		{"a marker for fields", "// Package v1", "// +kubebuilder:validation:MinLength=3\n\n// Package v1", "// +kubebuilder:validation:MinLength", "has no effect here: it belongs on a field or on a type"},
		{
			"a marker for packages", "// Item is a thing", "// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get\n// Item is a thing", "// +kubebuilder:rbac",
			"has no effect here: it belongs above the package clause, or in a comment of its own",
		},
		{"a marker at the end of a line", "	Cash bool `json:\"cash,omitempty\"`", "	Cash bool `json:\"cash,omitempty\"` // +kubebuilder:default=true", "	Cash bool", "on a line of its own, above the field"},
		{
			"an argument of a role", "// Item is a thing", "// +kubebuilder:rbac:group=apps,resources=deployments,verbs=get\n\n// Item is a thing", "// +kubebuilder:rbac",
			`unknown argument "group"`,
		},
		{"a name twice", "	// +optional\n	Air", "	// +optional\n	Sea string `json:\"street,omitempty\"`\n	// +optional\n	Air", "	Sea string", `field Sea has the JSON name "street" of field Street`},
		{
			"a path that is none", "// +kubebuilder:resource", "// +kubebuilder:printcolumn:name=A,type=string,JSONPath=`.metadata.labels[\"a\"]`\n// +kubebuilder:resource",
			"// +kubebuilder:printcolumn:name=A", "it cannot be parsed",
		},
		{
			"limits beside a description with dashes", "	// +optional\n	Labels", "	// Bits are OR'd with rw-rw----\n	// +kubebuilder:validation:MaxProperties=0\n	// +kubebuilder:validation:MinProperties=1\n	// +optional\n	Labels",
			"	// +kubebuilder:validation:MinProperties=1", "no value is valid",
		},
		{
			"limits that exclude each other", "	// +kubebuilder:validation:MinLength=3\n	Name", "	// +kubebuilder:validation:MaxLength=2\n	// +kubebuilder:validation:MinLength=3\n	Name",
			"	// +kubebuilder:validation:MinLength=3\n	Name", "properties[name]: no value is valid: minLength is 3, and maxLength is 2",
		},
		{"a limit out of range", "Maximum=100", "Maximum=4294967295", "	// +kubebuilder:validation:Maximum=4294967295", "maximum is 4294967295, which is out of the range of the format int32"},
		{"an enumeration of another type", "Enum=Post;Bike\n	// +kubebuilder:default=Bike", "Enum=1;2", "	// +kubebuilder:validation:Enum=1;2", "the type is string, and none of the enum's values is of this type"},
		{
			"the path of a column", "// +kubebuilder:resource", "// +kubebuilder:printcolumn:name=A,type=string,JSONPath=`.metadata.name`\n// +kubebuilder:printcolumn:name=B,type=string,JSONPath=`.spec.Code`\n// +kubebuilder:resource",
			"// +kubebuilder:printcolumn:name=B", "path .spec.Code: there is no field Code (did you mean code?)",
		},
		{
			"a filter in the path of a column", "// +kubebuilder:resource", "// +kubebuilder:printcolumn:name=A,type=string,JSONPath=`.spec.items[?(@.nam==\"a\")].count`\n// +kubebuilder:resource",
			"// +kubebuilder:printcolumn:name=A", "there is no field nam",
		},
		{
			"a column of another type", "// +kubebuilder:resource", "// +kubebuilder:printcolumn:name=A,type=integer,JSONPath=`.spec.code`\n// +kubebuilder:resource",
			"// +kubebuilder:printcolumn:name=A", "path .spec.code: the type of the field is string, not integer",
		},
		{
			"a column of no type", "// +kubebuilder:resource", "// +kubebuilder:printcolumn:name=A,type=strin,JSONPath=`.spec.code`\n// +kubebuilder:resource",
			"// +kubebuilder:printcolumn:name=A", `"strin": must be one of`,
		},
		{
			"a path of scale", "// +kubebuilder:resource", "// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas\n// +kubebuilder:resource",
			"// +kubebuilder:subresource:scale", "path .spec.replicas: there is no field replicas",
		},
		{
			"limits that exclude all between", "Minimum=2\n	// +kubebuilder:validation:Maximum=100",
			"Minimum=0\n	// +kubebuilder:validation:ExclusiveMinimum=true\n	// +kubebuilder:validation:Maximum=1\n	// +kubebuilder:validation:ExclusiveMaximum=true",
			"	// +kubebuilder:validation:Minimum=0", "minimum is 0 (exclusive), and maximum is 1 (exclusive)",
		},
		{
			"a struct that is embedded twice", "// Item is a thing", "type shared struct {\n	Both string `json:\"both\"`\n}\n\ntype left struct {\n	shared `json:\",inline\"`\n}\n\ntype right struct {\n	shared `json:\",inline\"`\n}\n\ntype either struct {\n	left `json:\",inline\"`\n	right `json:\",inline\"`\n}\n\n// Item is a thing",
			"type either", "field shared.Both is left out of JSON: its struct is embedded 2 times at the same depth",
		},
		{
			"a marker twice", "	// +optional\n	Labels", "	// +kubebuilder:validation:MinProperties=1\n	// +kubebuilder:validation:MinProperties=2\n	// +kubebuilder:validation:MaxProperties=1\n	// +optional\n	Labels",
			"	// +kubebuilder:validation:MinProperties=2", "+kubebuilder:validation:MinProperties is repeated: line ",
		},
		{"a type that does not exist", "	// +optional\n	Labels", "	// +optional\n	Lost Missing `json:\"lost,omitempty\"`\n	// +optional\n	Labels", "	Lost Missing", "unknown type"},
		{"a misspelt marker", "validation:MinItems", "validation:MinItem", "	// +kubebuilder:validation:MinItem", "did you mean +kubebuilder:validation:MinItems?"},
		{"no tag", "`json:\"card,omitempty\"`", "", "	Card string", "without JSON tag"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(string(good), test.from, test.to, 1)
			if text == string(good) {
				t.Fatalf("%q is not in the types", test.from)
			}
			p.write("api/v1/types.go", text)
			line := 1 + strings.Count(text[:strings.Index(text, test.at)], "\n")
			at := fmt.Sprintf("api/v1/types.go:%d:", line)
			code, out := p.run("vet")
			if lines := strings.Split(out, "\n"); code != 1 || !strings.HasPrefix(lines[0], at) || !strings.Contains(out, test.want) {
				t.Errorf("exit code %d\n%s\nwant %s %q", code, out, at, test.want)
			}
		})
	}

	// Fields that encoding/json leaves out have no name in JSON.
	p.write("api/v1/types.go", strings.Replace(string(good), "	// +optional\n	Air", "	// cached is internal.\n	cached string\n	// +optional\n	Air", 1)+"\n// cache is not of the API.\ntype cache struct {\n	value string `json:\"value\"`\n	Value string `json:\"value\"`\n}\n")
	if code, out := p.run("vet"); strings.Contains(out, "left out of JSON") {
		t.Errorf("a field that is not exported: exit code %d\n%s", code, out)
	}

	// As a tool of go vet.
	p.write("api/v1/types.go", strings.Replace(string(good), "default=Bike", "default=Car", 1))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code, out := p.command(append(os.Environ(), asCommand+"=1"), "go", "vet", "-vettool="+self, "./...")
	if code != 1 || !strings.Contains(out, "types.go:37:2: properties[spec].properties[delivery].default: Unsupported value") {
		t.Errorf("go vet: exit code %d\n%s", code, out)
	}
	for line, want := range map[string]string{"vet --fix": "unknown flag --fix", "vet ./none/...": "none: no such file or directory"} {
		if code, out := p.run(line); code == 0 || !strings.Contains(out, want) {
			t.Errorf("kapok %s: exit code %d\n%s\nwant %q", line, code, out, want)
		}
	}
}
