package bench

import (
	"encoding/json"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestLoad compares the load with its description.
func TestLoad(t *testing.T) {
	l := newLoad(&Options{})
	k := newKind("abcde")
	if l.ObjectBytes < 1450 || l.ObjectBytes > 1550 || len(k.object("c999999", 0, 9999)) != l.ObjectBytes {
		t.Errorf("objects of %d bytes", l.ObjectBytes)
	}
	shades := map[string]int{}
	for i := range l.Objects {
		var object struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct{ Replicas int }
		}
		if err := json.Unmarshal([]byte(k.object("w", i, i)), &object); err != nil || object.Spec.Replicas != i {
			t.Fatal(err)
		}
		shades[object.Metadata.Labels["shade"]]++
	}
	if n := shades["blue-7"]; n != l.Labelled || n != 100 {
		t.Errorf("%d of %d have the label", n, l.Objects)
	}
	r := run{load: l, kind: k, id: "abcde", namespace: "ns"}
	many, _ := r.gadget(149)
	for _, tc := range []struct {
		definition string
		fields     int
		name       string
	}{
		{k.definition("abcde"), l.SchemaFields, "widgets.abcde.bench.kapok.dev"},
		{many, l.DefinitionFields, "gadget149s.g2.abcde.bench.kapok.dev"},
	} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal([]byte(tc.definition), &crd); err != nil {
			t.Fatal(err)
		}
		if n := fields(*crd.Spec.Versions[0].Schema.OpenAPIV3Schema) - 1; n != tc.fields { // without spec itself
			t.Errorf("%s has %d fields, want %d", crd.Name, n, tc.fields)
		}
		if crd.Name != tc.name || crd.Labels[mark] != "abcde" {
			t.Errorf("definition %s, labels %v", crd.Name, crd.Labels)
		}
	}
	if small := newLoad(&Options{Scale: Small, Duration: 3 * time.Second}); small.Objects >= l.Objects || small.DurationSeconds != 3 || l.DurationSeconds != 10 {
		t.Errorf("%+v", small)
	}
}

// fields returns the number of fields in a schema.
func fields(s apiextensionsv1.JSONSchemaProps) int {
	n := len(s.Properties)
	for _, property := range s.Properties {
		n += fields(property)
	}
	if s.Items != nil && s.Items.Schema != nil {
		n += fields(*s.Items.Schema)
	}
	return n
}
