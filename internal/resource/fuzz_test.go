package resource_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// check wants an answer to be an object, or an error that leaves everything as it was.
func (b *bench) check(before fmt.Stringer, result resource.Result, err error) {
	b.Helper()
	after := b.State().Revision()
	switch {
	case err == nil && result.Object == nil && result.Tree == nil:
		b.Fatal("neither an object nor an error")
	case err != nil && after.String() != before.String():
		b.Fatalf("a refused write moved the revision from %s to %s: %v", before, after, err)
	}
	if result.Object != nil {
		if _, err := result.Object.Tree(); err != nil {
			b.Fatalf("what was stored cannot be read: %v", err)
		}
	}
}

// FuzzBody creates and updates with any body.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		widgetJSON("a", `,"spec":{"n":1}`), `{}`, `null`, `[]`, `{"metadata":`, "\xff", widgetJSON("a", `,"metadata":null`),
		`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a","finalizers":"x","ownerReferences":{}}}`,
		`{"apiVersion":"example.com/v2","kind":"Widget","metadata":5}`,
		`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a","managedFields":[{"fieldsV1":5}]}}`,
	} {
		f.Add([]byte(seed))
	}
	b := newBench(f, state.Options{HistoryBytes: 1 << 16})
	b.widget("kept", "")
	f.Fuzz(func(t *testing.T, data []byte) {
		b := *b
		b.TB = t
		before := b.State().Revision()
		result, err := b.Create(t.Context(), b.request(""), resource.Body{Data: data})
		b.check(before, result, err)
		before = b.State().Revision()
		result, err = b.Update(t.Context(), b.request("kept"), resource.Body{Data: data})
		b.check(before, result, err)
	})
}

// FuzzPatch patches with anything, in every way.
func FuzzPatch(f *testing.F) {
	for i, seed := range []string{
		`[{"op":"add","path":"/spec","value":{"a":1}}]`, `{"spec":{"a":null}}`, `{}`, "apiVersion: example.com/v2\nkind: Widget\nmetadata: {name: kept}\nspec: {a: 1}",
		`[{"op":"copy","from":"","path":"/spec"}]`, `{"metadata":null}`, `{"metadata":{"finalizers":["a/b"],"labels":[]}}`, "- a", `[{"op":"remove","path":"/metadata"}]`,
	} {
		f.Add(byte(i), []byte(seed))
	}
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType}
	b := newBench(f, state.Options{HistoryBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		b := *b
		b.TB = t
		if o, _ := b.State().Get(b.request("kept").Key()); o == nil {
			b.widget("kept", `,"spec":{"replicas":1}`)
		}
		r := b.request("kept")
		switch kind / 64 {
		case 1:
			r.Subresource = "status"
		case 2:
			r.Subresource = "scale"
		}
		before := b.State().Revision()
		result, err := b.Patch(t.Context(), r, resource.Patch{Type: kinds[int(kind)%len(kinds)], Data: data, Force: kind&32 != 0})
		b.check(before, result, err)
	})
}

// FuzzList lists and watches with any token, selectors and resourceVersion.
func FuzzList(f *testing.F) {
	b := newBench(f, state.Options{})
	for i := range 5 {
		b.widget(fmt.Sprintf("w%d", i), `,"spec":{"color":"red"}`)
	}
	page := b.mustList(resource.ListOptions{Limit: 2})
	f.Add(page.Continue, "", "", "", int64(2))
	f.Add("", "3", "app in (a,b)", "spec.color=red", int64(0))
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4ifQ", "", "", "", int64(1))
	f.Add("", "18446744073709551615", "=", "metadata.name!=w1", int64(-1))
	f.Fuzz(func(t *testing.T, token, rv, label, field string, limit int64) {
		o := resource.ListOptions{Continue: token, Limit: limit}
		if len(rv) < 3 { // a revision from the future is waited for
			o.ResourceVersion = rv
		}
		var err error
		if o.Labels, err = labels.Parse(label); err != nil {
			return
		}
		if o.Fields, err = fields.ParseSelector(field); err != nil {
			return
		}
		if list, err := b.List(t.Context(), b.request(""), o); err == nil {
			if len(list.Objects) > 5 || limit > 0 && o.ResourceVersion != "0" && int64(len(list.Objects)) > limit {
				t.Fatalf("%d objects", len(list.Objects))
			}
		} else if status := (&apierrors.StatusError{}); !errors.As(err, &status) || status.ErrStatus.Reason == metav1.StatusReasonInternalError {
			t.Fatalf("not an error for clients: %v", err)
		}
		if w, err := b.Watch(t.Context(), b.request(""), resource.WatchOptions{Labels: o.Labels, Fields: o.Fields, ResourceVersion: o.ResourceVersion}); err == nil {
			if _, _, err := w.Next(t.Context()); err != nil && !apierrors.IsResourceExpired(err) {
				t.Fatalf("watch: %v", err)
			}
		}
	})
}
