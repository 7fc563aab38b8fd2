package crd

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/client-go/util/jsonpath"
)

// metadatas returns the JSON of many forms of metadata.
func metadatas() []string {
	return []string{
		`{}`, `null`, `"text"`, `[]`,
		`{"name":"a","namespace":"b","uid":"u","resourceVersion":"1","generation":1,"creationTimestamp":"2026-01-31T00:00:00Z"}`,
		`{"name":"","generation":0,"labels":{},"annotations":null,"finalizers":[],"creationTimestamp":null}`,
		`{"name":1}`, `{"generation":"1"}`, `{"generation":1.5}`, `{"labels":{"a":1}}`, `{"labels":["a"]}`, `{"labels":{"a":null}}`,
		`{"finalizers":[1]}`, `{"finalizers":["a",null]}`, `{"finalizers":["a"]}`,
		`{"creationTimestamp":"2026-02-30T00:00:00Z"}`, `{"creationTimestamp":"2026-01-01T01:00:00+01:00"}`, `{"creationTimestamp":"0001-01-01T00:00:00Z"}`,
		`{"creationTimestamp":"2026-01-01T00:00:00.5Z"}`, `{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0}`,
		`{"Name":"a","foo":{"bar":1}}`, `{"name":"a","ownerReferences":[{"uid":"u","name":"n","kind":"k","apiVersion":"v"}]}`,
		`{"ownerReferences":[{"uid":"u","foo":1,"controller":true}]}`, `{"ownerReferences":[{"uid":"u","controller":null}]}`, `{"ownerReferences":[null]}`,
		`{"ownerReferences":[{"uid":"u","name":"n","kind":"k","apiVersion":"v","blockOwnerDeletion":"yes"}]}`,
		`{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]}`,
		`{"managedFields":[{"manager":"","fieldsV1":null}]}`, `{"managedFields":[{"bar":1,"subresource":"status"}]}`,
	}
}

// judge compares coerceMetadata with the library.
func judge(t *testing.T, metadata string) {
	var value any
	if json.Unmarshal([]byte(metadata), &value) != nil {
		return
	}
	text, err := object.AppendJSON(nil, resource.Tree{"metadata": value})
	if err != nil {
		return
	}
	tree := func() resource.Tree {
		obj, err := object.DecodeTree(text)
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	for _, strict := range []bool{false, true} {
		want, got := tree(), tree()
		meta, found, wantUnknown, wantErr := objectmeta.GetObjectMetaWithOptions(want, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: strict})
		if wantErr == nil && found {
			wantErr = objectmeta.SetObjectMeta(want, meta)
		}
		var unknown *[]string
		if strict {
			unknown = new([]string)
		}
		gotErr := coerceMetadata(got, unknown)
		if (wantErr == nil) != (gotErr == nil) || wantErr != nil && wantErr.Error() != gotErr.Error() {
			t.Fatalf("%s: error %v, want %v", metadata, gotErr, wantErr)
		}
		if wantErr != nil {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", metadata, diff)
		}
		if strict && !slices.Equal(*unknown, wantUnknown) {
			t.Fatalf("%s: unknown %q, want %q", metadata, *unknown, wantUnknown)
		}
	}
}

func TestCoerceMetadata(t *testing.T) {
	for _, metadata := range metadatas() {
		judge(t, metadata)
	}
}

func FuzzCoerceMetadata(f *testing.F) {
	for _, metadata := range metadatas() {
		f.Add(metadata)
	}
	f.Fuzz(judge)
}

// FuzzPath compares paths with the library that defines them.
func FuzzPath(f *testing.F) {
	const doc = `{"metadata":{"name":"n"},"spec":{"a":{"b":[1,{"c":"x"}]},"n":null,"t":true,"f":1.5,"d-e":"f"}}`
	for _, path := range []string{".spec.a", ".spec.a.b", ".spec.a.b.c", ".spec.a.b[1].c", ".spec.n", ".spec.n.x", ".spec.d-e", ".missing.too", ".", "", "spec", "..c", ".spec.a.b[*]", `.spec.a['b']`, ".spec.t", "{", ".a}{.b", ".spec .a"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, text string) {
		obj, err := object.DecodeTree([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		judge := jsonpath.New("judge").AllowMissingKeys(true)
		wantErr := judge.Parse("{" + text + "}")
		p, err := parsePath(text)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: error %v, want %v", text, err, wantErr)
		}
		if err != nil {
			return
		}
		results, wantErr := judge.FindResults(obj)
		found := wantErr == nil && len(results) > 0 && len(results[0]) > 0
		value, ok := p.find(obj)
		if ok != found {
			t.Fatalf("%q: found %v, want %v", text, ok, found)
		}
		if found {
			if diff := cmp.Diff(results[0][0].Interface(), value); diff != "" {
				t.Fatalf("%q (-want +got):\n%s", text, diff)
			}
		}
	})
}
