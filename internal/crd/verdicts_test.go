package crd

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestSchemaIsValidatedOnce changes a definition without its schema: the library must see the
// schema once.
func TestSchemaIsValidatedOnce(t *testing.T) {
	s := newServer(t)
	kind := s.store.Registry().Load().Resource(Resource)
	m := served(kind, "v1").Model.(*kindModel)
	judge, withSchema := m.judge, 0
	m.judge = func(ctx context.Context, obj, old resource.Tree) field.ErrorList {
		for _, tree := range []resource.Tree{obj, old} {
			if data, err := object.AppendJSON(nil, tree); err != nil || strings.Contains(string(data), "field149") {
				withSchema++
			}
		}
		return judge(ctx, obj, old)
	}
	text := large(0, 150)
	s.mustCreate(text)
	s.established("large0s.example.com")
	for _, change := range []string{
		`{"metadata":{"annotations":{"a":"1"}}}`,
		`{"metadata":{"annotations":{"a":"2"},"labels":{"b":"c"}}}`,
		`{"spec":{"names":{"shortNames":["lg"]}}}`,
	} {
		if _, err := s.patch(kind, "v1", "", "large0s.example.com", change); err != nil {
			t.Fatal(err)
		}
	}
	if withSchema != 1 {
		t.Errorf("the schema was validated %d times, want 1", withSchema)
	}
	s.mustCreate(strings.NewReplacer("large0", "other", "Large0", "Other").Replace(text))
	s.established("others.example.com")
	if withSchema != 1 {
		t.Errorf("the schema was validated again for another definition that has it")
	}
	if _, err := s.patch(kind, "v1", "", "others.example.com", `{"spec":{"scope":"Cluster"}}`); err == nil {
		t.Error("the scope of an established definition changed")
	}
}

// TestVerdictsChangeNoAnswer validates all changes of some definitions into others, valid or not,
// with an empty memory of verdicts and with a filled one.
func TestVerdictsChangeNoAnswer(t *testing.T) {
	s := newServer(t)
	s.mustCreate(gauges)
	s.established("gauges.example.com")
	base := s.get("gauges.example.com", "v1")
	edit := func(edit func(spec, version resource.Tree)) resource.Tree {
		obj := copyTree(base)
		spec := obj["spec"].(resource.Tree)
		edit(spec, spec["versions"].([]any)[0].(resource.Tree))
		return obj
	}
	schemaOf := func(version resource.Tree) resource.Tree {
		return version["schema"].(resource.Tree)["openAPIV3Schema"].(resource.Tree)
	}
	second := func(spec, version resource.Tree, name string) resource.Tree {
		v := copyTree(version)
		v["name"], v["storage"] = name, false
		spec["versions"] = append(spec["versions"].([]any), v)
		return v
	}
	objs := map[string]resource.Tree{
		"base":       base,
		"scope":      edit(func(spec, _ resource.Tree) { spec["scope"] = "Cluster" }),
		"kind":       edit(func(spec, _ resource.Tree) { spec["names"].(resource.Tree)["kind"] = "Other" }),
		"no storage": edit(func(_, v resource.Tree) { v["storage"] = false }),
		"two equal":  edit(func(spec, v resource.Tree) { second(spec, v, "v2") }),
		"same name":  edit(func(spec, v resource.Tree) { second(spec, v, "v1") }),
		"two": edit(func(spec, v resource.Tree) {
			schemaOf(second(spec, v, "v2"))["description"] = "another"
		}),
		"one without status": edit(func(spec, v resource.Tree) {
			w := second(spec, v, "v2")
			delete(w, "subresources")
			schemaOf(w)["minProperties"] = int64(1)
		}),
		"status forbids": edit(func(_, v resource.Tree) { schemaOf(v)["minProperties"] = int64(1) }),
		"no status": edit(func(_, v resource.Tree) {
			delete(v, "subresources")
			schemaOf(v)["minProperties"] = int64(1)
		}),
		"selectable":     edit(func(_, v resource.Tree) { v["selectableFields"] = []any{resource.Tree{"jsonPath": ".spec.kind"}} }),
		"not selectable": edit(func(_, v resource.Tree) { v["selectableFields"] = []any{resource.Tree{"jsonPath": ".spec.none"}} }),
		"no schema":      edit(func(_, v resource.Tree) { delete(v, "schema") }),
		"bad type":       edit(func(_, v resource.Tree) { schemaOf(v)["type"] = "nothing" }),
		"bad rule": edit(func(_, v resource.Tree) {
			schemaOf(v)["x-kubernetes-validations"] = []any{resource.Tree{"rule": "self.none"}}
		}),
		"bad default": edit(func(_, v resource.Tree) {
			schemaOf(v)["properties"].(resource.Tree)["spec"].(resource.Tree)["default"] = "text"
		}),
		"preserves": edit(func(spec, _ resource.Tree) { spec["preserveUnknownFields"] = true }),
		"webhook":   edit(func(spec, _ resource.Tree) { spec["conversion"] = resource.Tree{"strategy": "Webhook"} }),
		"columns":   edit(func(_, v resource.Tree) { v["additionalPrinterColumns"] = []any{resource.Tree{"name": "a"}} }),
		"community": edit(func(spec, _ resource.Tree) { spec["group"] = "x.k8s.io" }),
	}
	fresh := newKindModel(&apiextensionsv1.CustomResourceDefinition{}, apiextensionsv1.SchemeGroupVersion)
	warm := newKindModel(&apiextensionsv1.CustomResourceDefinition{}, apiextensionsv1.SchemeGroupVersion)
	skipped := 0
	judge := warm.judge
	for from, old := range objs {
		for to, obj := range objs {
			calls := 0
			warm.judge = func(ctx context.Context, obj, old resource.Tree) field.ErrorList {
				calls++
				return judge(ctx, obj, old)
			}
			want, got := fresh.apply(t.Context(), copyTree(obj), old, ""), warm.Validate(t.Context(), copyTree(obj), old, "")
			if !cmp.Equal(fmt.Sprint(want), fmt.Sprint(got)) {
				t.Errorf("from %s to %s: %s", from, to, cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)))
			}
			if calls == 1 && len(got) == 0 {
				skipped++
			}
		}
	}
	for name, obj := range objs {
		if want, got := fresh.apply(t.Context(), copyTree(obj), nil, ""), warm.Validate(t.Context(), copyTree(obj), nil, ""); !cmp.Equal(fmt.Sprint(want), fmt.Sprint(got)) {
			t.Errorf("create %s: %s", name, cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)))
		}
	}
	if skipped == 0 {
		t.Error("no verdict was remembered")
	}
}

func copyTree(t resource.Tree) resource.Tree {
	t = maps.Clone(t)
	for k, v := range t {
		t[k] = copyValue(v)
	}
	return t
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return copyTree(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = copyValue(v[i])
		}
		return list
	}
	return v
}

// TestNoVerdictOfEndedRequests validates invalid schemas for a request that has ended, and then for
// one that has not.
func TestNoVerdictOfEndedRequests(t *testing.T) {
	server := newServer(t)
	server.mustCreate(gauges)
	obj := copyTree(server.get("gauges.example.com", "v1"))
	version := obj["spec"].(resource.Tree)["versions"].([]any)[0].(resource.Tree)
	version["schema"].(resource.Tree)["openAPIV3Schema"].(resource.Tree)["type"] = "nothing"
	m := newKindModel(&apiextensionsv1.CustomResourceDefinition{}, apiextensionsv1.SchemeGroupVersion)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m.Validate(ended, copyTree(obj), nil, "")
	if errs := m.Validate(t.Context(), copyTree(obj), nil, ""); len(errs) == 0 {
		t.Error("the validation of a request that had ended has marked invalid schemas as valid")
	}
}

// TestVerdictsAreBounded adds many times the maximum of verdicts, while one of them is in use.
func TestVerdictsAreBounded(t *testing.T) {
	var v verdicts
	var used schemaHash
	v.put(used, true)
	for i := range 10 * maxVerdicts {
		var hash schemaHash
		binary.BigEndian.PutUint64(hash[:], uint64(i+1))
		v.put(hash, false)
		if valid, known := v.of(used); !valid || !known {
			t.Fatalf("a verdict in use is forgotten after %d others", i)
		}
		if n := len(v.recent) + len(v.older); n > 2*maxVerdicts {
			t.Fatalf("%d verdicts are kept", n)
		}
	}
	if _, known := v.of(schemaHash{7: 1}); known {
		t.Error("the first verdict is still known")
	}
}
