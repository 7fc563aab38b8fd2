package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Definitions of v1beta1 become such that a server accepts and establishes them, and drops nothing
// that it kept before.
func TestConvertDefinitions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "internal", "crd", "testdata", "at-crd*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	definitions := map[string]string{
		"nested": strings.Replace(read(filepath.Join("..", "..", "internal", "crd", "testdata", "at-crd.yaml")), "  version: v1alpha1\n", `  version: v1alpha1
  validation:
    openAPIV3Schema:
      properties:
        metadata: {}
        spec:
          properties:
            schedule: {type: string}
            map: {type: object, additionalProperties: {type: object, properties: {known: {type: string}}}}
            list: {type: array, items: {type: object, properties: {known: {type: string}}}}
            any: {type: array}
`, 1),
	}
	for _, file := range files {
		definitions[filepath.Base(file)] = read(file)
	}
	for name, text := range definitions {
		t.Run(name, func(t *testing.T) {
			out, stderr, code := convertText(t, text)
			if code != 0 {
				t.Fatal(stderr)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			server, err := kapok.Start(ctx, kapok.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			client, err := dynamic.NewForConfig(server.Config())
			if err != nil {
				t.Fatal(err)
			}
			establish(ctx, t, client, out)
			const object = `
apiVersion: cnat.programming-kubernetes.info/v1alpha1
kind: At
metadata: {name: a}
spec:
  schedule: 2019-07-03T02:00:00Z
  command: echo
  unknown: {below: 1}
  map: {key: {known: x, unknown: 1}}
  list: [{known: x, unknown: 1}]
  any: [{unknown: 1}]
unknown: {below: {below: 1}}
`
			at := parse(t, strings.Replace(object, "schedule: 2019-07-03T02:00:00Z", `schedule: "2019-07-03T02:00"`, 1))
			made, err := client.Resource(schema.GroupVersionResource{Group: at.GroupVersionKind().Group, Version: "v1alpha1", Resource: "ats"}).
				Namespace("default").Create(ctx, at, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"spec.unknown.below", "spec.map.key.unknown", "unknown.below.below"} {
				if _, found, err := unstructured.NestedFieldNoCopy(made.Object, strings.Split(path, ".")...); !found || err != nil {
					t.Errorf("%s is lost: %v", path, made.Object)
				}
			}
			for _, path := range []string{"list", "any"} {
				list, _, _ := unstructured.NestedSlice(made.Object, "spec", path)
				if item, ok := list[0].(map[string]any); !ok || item["unknown"] == nil {
					t.Errorf("spec.%s[0].unknown is lost: %v", path, made.Object)
				}
			}
		})
	}
}

// establish creates a definition and waits until it is served.
func establish(ctx context.Context, t *testing.T, client dynamic.Interface, text string) {
	t.Helper()
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	events, err := crds.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if _, err := crds.Create(ctx, parse(t, text), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for event := range events.ResultChan() {
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			t.Fatalf("%v", event)
		}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return
			}
		}
	}
	t.Fatal("is never established")
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestConvertUnacceptableDefinitions checks that a definition that v1 still rejects is reported,
// and that definitions that no server accepts cannot be used for conversion.
func TestConvertUnacceptableDefinitions(t *testing.T) {
	old := strings.Replace(atBeta, "VALIDATION", "{openAPIV3Schema: {properties: {spec: {type: object, anyOf: [{properties: {x: {type: string}}}]}}}}", 1)
	const want = `kapok: FILE: document 1 (CustomResourceDefinition ats.cnat.example.com): this definition is invalid in apiextensions.k8s.io/v1: make its schemas structural and set the type of every field: `
	if out, stderr, code := convertText(t, old); code != exitFailure || out != "" || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	if out, stderr, code := convertText(t, old, "--validate=warn"); code != 0 || !strings.Contains(out, "apiextensions.k8s.io/v1\n") || !strings.Contains(stderr, "this definition is invalid") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	misspelt := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(misspelt, []byte(strings.Replace(atDefinition, "schedule: {type: string}", "schedule: {type: strng}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, validate := range []string{validateStrict, validateWarn, validateIgnore} {
		out, stderr, code := convertText(t, at, "--crd", misspelt, "--validate", validate)
		if code != exitFailure || out != "" || !strings.HasPrefix(stderr, "kapok: "+misspelt+": document 1 (CustomResourceDefinition ats.cnat.example.com): the definition is invalid: ") ||
			!strings.Contains(stderr, `Unsupported value: "strng"`) {
			t.Errorf("exit code %d: %s%s", code, out, stderr)
		}
	}
}

const atBeta = `apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: ats.cnat.example.com}
spec:
  group: cnat.example.com
  names: {kind: At, plural: ats}
  scope: Namespaced
  version: v1
  validation: VALIDATION
`

// The files of the documents convert by each other.
func TestConvertDocumentsDefinition(t *testing.T) {
	dir := filepath.Join("..", "..", "internal", "crd", "testdata")
	text, err := os.ReadFile(filepath.Join(dir, "at.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out, stderr, code := convertText(t, string(text), "--crd", filepath.Join(dir, "at-crd-versions.yaml"), "--output-version", "cnat.programming-kubernetes.info/v1beta1")
	want := `apiVersion: cnat.programming-kubernetes.info/v1beta1
kind: At
metadata:
  name: example-at
spec:
  schedule: "2019-07-03T02:00:00Z"
status:
  phase: pending
`
	if code != 0 || stderr != "" || out != want {
		t.Errorf("exit code %d: %s\n%s", code, stderr, out)
	}
}
