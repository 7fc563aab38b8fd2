package resource_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestCreateRefusals(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("taken", "")
	for _, tc := range []struct {
		name, body string
		namespace  string
		want       string
		is         func(error) bool
	}{
		{"exists", widgetJSON("taken", ""), "", `widgets.example.com "taken" already exists`, apierrors.IsAlreadyExists},
		{"bad name", widgetJSON("No Good", ""), "", `metadata.name: Invalid value: "No Good"`, apierrors.IsInvalid},
		{"no name", `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{}}`, "", "name or generateName is required", apierrors.IsInvalid},
		{"schema", widgetJSON("a", `,"spec":{"bad":1}`), "", `spec.bad: Invalid value: 1: must not be there`, apierrors.IsInvalid},
		{"version", strings.Replace(widgetJSON("a", ""), "v2", "v9", 1), "", "the API version in the data (example.com/v9) does not match the expected API version (example.com/v2)", apierrors.IsBadRequest},
		{"namespace in body", `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a","namespace":"other"}}`, "", "the namespace of the provided object does not match the namespace sent on the request", apierrors.IsBadRequest},
		{"no such namespace", widgetJSON("a", ""), "nowhere", `namespaces "nowhere" not found`, apierrors.IsNotFound},
		{"no JSON", `{"apiVersion":`, "", "the object provided is unrecognized", apierrors.IsBadRequest},
		{"duplicate field", widgetJSON("a", `,"spec":{"x":1,"x":2}`), "", `strict decoding error: duplicate field "spec.x"`, apierrors.IsBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := b.request("")
			if tc.namespace != "" {
				r.Namespace = tc.namespace
			}
			before := b.State().Revision()
			_, err := b.Create(t.Context(), r, resource.Body{Data: []byte(tc.body)})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !tc.is(err) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if after := b.State().Revision(); after != before {
				t.Errorf("a refused write moved the revision from %d to %d", before, after)
			}
		})
	}
}

func TestGenerateName(t *testing.T) {
	b := newBench(t, state.Options{})
	long := strings.Repeat("x", 100)
	for _, base := range []string{"job-", long} {
		o := b.mustCreate(b.request(""), fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"generateName":%q}}`, base))
		if n := o.Key.Name; len(n) > 63 || len(n) != len(base[:min(len(base), 58)])+5 {
			t.Errorf("generateName %q gave %q", base, n)
		}
	}
}

func TestUpdateIsOptimistic(t *testing.T) {
	b := newBench(t, state.Options{})
	first := b.widget("a", `,"spec":{"n":1}`)
	second := b.mustPatch("a", `{"spec":{"n":2}}`)

	update := func(rv string) error {
		body := fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a","resourceVersion":%q},"spec":{"n":3}}`, rv)
		_, err := b.Update(t.Context(), b.request("a"), resource.Body{Data: []byte(body)})
		return err
	}
	if err := update(first.Revision.String()); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	if err := update(""); !apierrors.IsInvalid(err) {
		t.Errorf("update without resourceVersion: %v", err)
	}
	if err := update(second.Revision.String()); err != nil {
		t.Errorf("fresh update: %v", err)
	}
}

func TestNoChangeKeepsRevision(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", `,"spec":{"n":1}`)
	changed := b.mustPatch("a", `{"spec":{"n":2}}`)
	for _, again := range []string{`{"spec":{"n":2}}`, `{}`} {
		if same := b.mustPatch("a", again); same.Revision != changed.Revision {
			t.Errorf("patch %s moved the revision from %d to %d", again, changed.Revision, same.Revision)
		}
	}
}

func TestConcurrentPatchesAllCount(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", "")
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := b.patch(b.request("a"), types.MergePatchType, fmt.Sprintf(`{"spec":{"w%d-%d":1}}`, w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	o, _ := b.State().Get(b.request("a").Key())
	if spec := b.tree(o)["spec"].(map[string]any); len(spec) != writers*each {
		t.Errorf("%d of %d patches are there", len(spec), writers*each)
	}
}

func TestApplyConflicts(t *testing.T) {
	b := newBench(t, state.Options{})
	apply := func(manager, color string, force bool) error {
		r := b.request("a")
		r.Manager = manager
		_, err := b.Patch(t.Context(), r, resource.Patch{Type: types.ApplyPatchType, Force: force,
			Data: fmt.Appendf(nil, "apiVersion: example.com/v2\nkind: Widget\nmetadata: {name: a}\nspec:\n  color: %s\n", color)})
		return err
	}
	if err := apply("one", "red", false); err != nil {
		t.Fatalf("apply creates: %v", err)
	}
	err := apply("two", "blue", false)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .spec.color`) {
		t.Errorf("second manager: %v", err)
	}
	if err := apply("two", "blue", true); err != nil {
		t.Errorf("forced: %v", err)
	}
	if err := apply("one", "red", false); !apierrors.IsConflict(err) {
		t.Errorf("first manager afterwards: %v", err)
	}
}

func TestDeleteWaitsForFinalizers(t *testing.T) {
	b := newBench(t, state.Options{})
	b.mustCreate(b.request(""), `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a","finalizers":["example.com/hold"]}}`)
	result, err := b.Delete(t.Context(), b.request("a"), nil)
	if err != nil || !result.Pending || !result.Object.Meta.Deleting() {
		t.Fatalf("delete: %+v, %v", result, err)
	}
	again, err := b.Delete(t.Context(), b.request("a"), nil)
	if err != nil || again.Object.Revision != result.Object.Revision {
		t.Errorf("a second delete changed the object: %+v, %v", again, err)
	}
	b.mustPatch("a", `{"metadata":{"finalizers":null}}`)
	if o, _ := b.State().Get(b.request("a").Key()); o != nil {
		t.Errorf("object is still there: %s", o.Raw)
	}
}

func TestDeletePreconditions(t *testing.T) {
	b := newBench(t, state.Options{})
	o := b.widget("a", "")
	wrong := types.UID("wrong")
	old := "1"
	for _, p := range []metav1.Preconditions{{UID: &wrong}, {ResourceVersion: &old}} {
		if _, err := b.Delete(t.Context(), b.request("a"), &metav1.DeleteOptions{Preconditions: &p}); !apierrors.IsConflict(err) {
			t.Errorf("precondition %v: %v", p, err)
		}
	}
	result, err := b.Delete(t.Context(), b.request("a"), &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.Meta.UID}})
	if err != nil || result.Status.Details.UID != o.Meta.UID {
		t.Errorf("delete: %+v, %v", result, err)
	}
}

func TestScale(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", `,"spec":{"replicas":2}`)
	b.widget("none", "")
	r := b.request("a")
	r.Subresource = "scale"
	result, err := b.Patch(t.Context(), r, resource.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"replicas":5}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(result.Tree, "spec", "replicas"); n != 5 {
		t.Errorf("scale shows %d replicas", n)
	}
	o, _ := b.State().Get(r.Key())
	if n, _, _ := unstructured.NestedInt64(b.tree(o), "spec", "replicas"); n != 5 {
		t.Errorf("object has %d replicas", n)
	}
	r = b.request("none")
	r.Subresource = "scale"
	if _, err := b.Get(t.Context(), r, ""); err == nil || !strings.Contains(err.Error(), `the spec replicas field ".spec.replicas" does not exist`) {
		t.Errorf("scale of an object without replicas: %v", err)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", "")
	before := b.State().Revision()
	r := b.request("a")
	r.DryRun = true
	if o, err := b.patch(r, types.MergePatchType, `{"spec":{"n":1}}`); err != nil || b.tree(o)["spec"] == nil {
		t.Errorf("patch: %v", err)
	}
	if _, err := b.Delete(t.Context(), r, nil); err != nil {
		t.Errorf("delete: %v", err)
	}
	c := b.request("")
	c.DryRun = true
	if o := b.mustCreate(c, widgetJSON("b", "")); o.Meta.UID == "" {
		t.Error("a dry run shows no uid")
	}
	if after := b.State().Revision(); after != before {
		t.Errorf("a dry run moved the revision from %d to %d", before, after)
	}
}

func TestPagesShowOneRevision(t *testing.T) {
	b := newBench(t, state.Options{})
	var want []string
	for i := range 10 {
		name := fmt.Sprintf("w%d", i)
		b.widget(name, "")
		want = append(want, name)
	}
	page := b.mustList(resource.ListOptions{Limit: 4})
	if page.Remaining == nil || *page.Remaining != 6 {
		t.Errorf("remaining: %v", page.Remaining)
	}
	first, got := page.Revision, names(page.Objects)
	for n := 0; page.Continue != ""; n++ {
		b.widget(fmt.Sprintf("w%d-late", n), "")
		if _, err := b.Delete(t.Context(), b.request(fmt.Sprintf("w%d", 9-n)), nil); err != nil {
			t.Fatal(err)
		}
		page = b.mustList(resource.ListOptions{Limit: 4, Continue: page.Continue})
		if page.Revision != first {
			t.Errorf("a page shows revision %d, the first showed %d", page.Revision, first)
		}
		got = append(got, names(page.Objects)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExpiredToken(t *testing.T) {
	b := newBench(t, state.Options{HistoryBytes: 1})
	for i := range 10 {
		b.widget(fmt.Sprintf("w%d", i), "")
	}
	page := b.mustList(resource.ListOptions{Limit: 4})
	for range 3 {
		b.mustPatch("w0", `{"spec":{"n":1}}`)
		b.mustPatch("w0", `{"spec":{"n":2}}`)
	}
	_, err := b.List(t.Context(), b.request(""), resource.ListOptions{Limit: 4, Continue: page.Continue})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("got %v", err)
	}
	inconsistent := err.(*apierrors.StatusError).ErrStatus.ListMeta.Continue
	page = b.mustList(resource.ListOptions{Limit: 100, Continue: inconsistent})
	if diff := cmp.Diff([]string{"w4", "w5", "w6", "w7", "w8", "w9"}, names(page.Objects)); diff != "" {
		t.Error(diff)
	}
}

func TestSelectors(t *testing.T) {
	b := newBench(t, state.Options{})
	b.mustCreate(b.request(""), `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a","labels":{"app":"x"}},"spec":{"color":"red"}}`)
	b.widget("b", `,"spec":{"color":"blue"}`)
	for _, tc := range []struct {
		label, field string
		want         []string
	}{
		{"app=x", "", []string{"a"}},
		{"app!=x", "", []string{"b"}},
		{"", "metadata.name=b", []string{"b"}},
		{"", "spec.color=red", []string{"a"}},
		{"app", "spec.color!=red", nil},
	} {
		label, err := labels.Parse(tc.label)
		if err != nil {
			t.Fatal(err)
		}
		list := b.mustList(resource.ListOptions{Labels: label, Fields: fields.ParseSelectorOrDie(tc.field)})
		if diff := cmp.Diff(tc.want, names(list.Objects)); diff != "" {
			t.Errorf("%q %q: %s", tc.label, tc.field, diff)
		}
	}
	_, err := b.List(t.Context(), b.request(""), resource.ListOptions{Fields: fields.ParseSelectorOrDie("spec.size=1")})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported: spec.size") {
		t.Errorf("unknown field: %v", err)
	}
}

// TestPagesOfASelection: labels that an index knows of are selected as those that it does not, page
// by page.
func TestPagesOfASelection(t *testing.T) {
	b := newBench(t, state.Options{})
	for i := range 30 {
		b.mustCreate(b.request(""), fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w%02d","labels":{"shade":"%d"}}}`, i, i%3))
	}
	known, err := labels.Parse("shade in (1, 7)")
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := labels.Parse("shade,shade notin (0, 2)")
	if err != nil {
		t.Fatal(err)
	}
	for limit := range int64(12) {
		var got []string
		for token := ""; ; {
			page := b.mustList(resource.ListOptions{Labels: known, Limit: limit, Continue: token})
			same := b.mustList(resource.ListOptions{Labels: unknown, Limit: limit, Continue: token})
			if diff := cmp.Diff(names(same.Objects), names(page.Objects)); diff != "" || page.Continue != same.Continue {
				t.Fatalf("limit %d from %q: %s, continues with %q, want %q", limit, token, diff, page.Continue, same.Continue)
			}
			got = append(got, names(page.Objects)...)
			if token = page.Continue; token == "" {
				break
			}
		}
		if diff := cmp.Diff([]string{"w01", "w04", "w07", "w10", "w13", "w16", "w19", "w22", "w25", "w28"}, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

func TestWatchOfSelection(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", "")
	label, _ := labels.Parse("app=x")
	w, err := b.Watch(t.Context(), b.request(""), resource.WatchOptions{Labels: label})
	if err != nil {
		t.Fatal(err)
	}
	b.mustPatch("a", `{"metadata":{"labels":{"app":"x"}}}`)
	b.mustPatch("a", `{"spec":{"n":1}}`)
	left := b.mustPatch("a", `{"metadata":{"labels":null}}`)
	b.mustPatch("a", `{"spec":{"n":2}}`)
	if diff := cmp.Diff([]string{"ADDED a", "MODIFIED a", "DELETED a"}, b.drain(w)); diff != "" {
		t.Error(diff)
	}
	if w.Revision() <= left.Revision {
		t.Errorf("the watch stands at %d, behind the last change", w.Revision())
	}
}

func TestWatchInitialEvents(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		name string
		opts resource.WatchOptions
		want []string
	}{
		{"unset", resource.WatchOptions{}, []string{"ADDED a"}},
		{"zero", resource.WatchOptions{ResourceVersion: "0"}, []string{"ADDED a"}},
		{"streaming list", resource.WatchOptions{SendInitialEvents: &yes, Bookmarks: true}, []string{"ADDED a", "BOOKMARK"}},
		{"none wanted", resource.WatchOptions{SendInitialEvents: &no}, nil},
		{"from the start", resource.WatchOptions{ResourceVersion: "1"}, []string{"ADDED a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, state.Options{})
			b.widget("a", "")
			w, err := b.Watch(t.Context(), b.request(""), tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, b.drain(w)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVersionsShareObjects(t *testing.T) {
	b := newBench(t, state.Options{})
	o := b.widget("a", `,"spec":{"n":1}`)
	v1 := b.widgets.Version(schema.GroupVersion{Group: b.widgets.Group, Version: "v1"})
	form, err := resource.Form(b.widgets, v1, o, object.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(form.AppendTo(nil, o.Revision)); !strings.Contains(got, `"apiVersion":"example.com/v1"`) {
		t.Errorf("v1 form: %s", got)
	}
	r := b.request("a")
	r.Version = v1
	changed, err := b.patch(r, types.MergePatchType, `{"spec":{"m":2}}`)
	if err != nil || !strings.HasPrefix(string(changed.Raw), `{"apiVersion":"example.com/v2"`) {
		t.Errorf("patched through v1, stored as %s, %v", changed.Raw, err)
	}
}

func TestJSONPatchCopiesAreBounded(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", fmt.Sprintf(`,"spec":{"a":%q}`, strings.Repeat("x", 1000)))
	var ops []string
	for i := range 40 {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/spec","path":"/spec/c%d"}`, i))
	}
	_, err := b.patch(b.request("a"), types.JSONPatchType, "["+strings.Join(ops, ",")+"]")
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	big := fmt.Sprintf(`{"spec":{"big":%q}}`, strings.Repeat("x", 400<<10))
	b.mustPatch("a", big)
	same := strings.Repeat(`{"op":"copy","from":"/spec/big","path":"/spec/c"},`, 10)
	if _, err := b.patch(b.request("a"), types.JSONPatchType, "["+strings.TrimSuffix(same, ",")+"]"); !apierrors.IsInvalid(err) {
		t.Errorf("copies to one place: %v", err)
	}
	if _, err := b.patch(b.request("a"), types.JSONPatchType, `[{"op":"copy","from":"/spec/a","path":"/spec/b"},{"op":"replace","path":"/spec/a","value":"y"}]`); err != nil {
		t.Errorf("a small copy: %v", err)
	}
}

// TestJSONPatchTestsEscapedText has the text of a test in the form that Kubernetes gives objects,
// which is also what encoding/json makes of it, and in another.
func TestJSONPatchTestsEscapedText(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", `,"spec":{"a":"<b> & \u2028"}`)
	if _, err := b.patch(b.request("a"), types.JSONPatchType, `[{"op":"test","path":"/spec/a","value":"\u003cb\u003e \u0026 \u2028"}]`); err != nil {
		t.Errorf("escaped: %v", err)
	}
	if _, err := b.patch(b.request("a"), types.JSONPatchType, `[{"op":"test","path":"/spec/a","value":"<b> & \u2028"}]`); !apierrors.IsInvalid(err) {
		t.Errorf("not escaped: %v", err)
	}
}

// TestJSONPatchEndsWithItsClient ends the context while the operations are applied.
func TestJSONPatchEndsWithItsClient(t *testing.T) {
	b := newBench(t, state.Options{})
	b.widget("a", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	operations := "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"Widget"},`, 100) + `{"op":"unknown"}]`
	_, err := b.Patch(ctx, b.request("a"), resource.Patch{Type: types.JSONPatchType, Data: []byte(operations)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestRacingApplies checks that the second of two applies starts from the result of the first.
func TestRacingApplies(t *testing.T) {
	b := newBench(t, state.Options{})
	for round := range 20 {
		name := fmt.Sprintf("r%d", round)
		var wg sync.WaitGroup
		for m := range 8 {
			wg.Go(func() {
				r := b.request(name)
				r.Manager = fmt.Sprintf("m%d", m)
				_, err := b.Patch(t.Context(), r, resource.Patch{Type: types.ApplyPatchType,
					Data: fmt.Appendf(nil, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":%q},"spec":{"f%d":1}}`, name, m)})
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		o, _ := b.State().Get(b.request(name).Key())
		if spec, _ := b.tree(o)["spec"].(map[string]any); len(spec) != 8 {
			t.Errorf("%s holds %d of 8 fields", name, len(spec))
		}
	}
}
