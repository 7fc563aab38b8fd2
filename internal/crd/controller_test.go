package crd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func appendObject(st *state.State, o *object.Object) error {
	_, err := st.Append(context.Background(), journal.Batch{Entries: []journal.Entry{{Key: o.Key, Object: o}}})
	return err
}

// conditions returns a line for each condition: type, status, reason and message.
func conditions(m *manifest) string {
	var lines []string
	for _, c := range m.Status.Conditions {
		lines = append(lines, strings.Join([]string{string(c.Type), string(c.Status), c.Reason, c.Message}, " | "))
	}
	return strings.Join(lines, "\n")
}

func TestEstablish(t *testing.T) {
	s := newServer(t)
	created := s.mustCreate(simple("widgets", "Widget", "shortNames: [wd]", "categories: [all]"))
	if diff := cmp.Diff(resource.Tree{
		"acceptedNames":  resource.Tree{"plural": "", "kind": ""},
		"conditions":     nil,
		"storedVersions": []any{"v1"},
	}, created["status"]); diff != "" {
		t.Errorf("status of the answer (-want +got):\n%s", diff)
	}
	d := s.established("widgets.example.com")
	m := s.crd("widgets.example.com")
	want := "NamesAccepted | True | NoConflicts | no conflicts found\n" +
		"Established | True | InitialNamesAccepted | the initial names have been accepted"
	if got := conditions(m); got != want {
		t.Errorf("conditions:\n%s\nwant:\n%s", got, want)
	}
	if !slices.ContainsFunc(m.Metadata.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "kube-apiserver" && e.Subresource == "status"
	}) {
		t.Errorf("managed fields: %v", m.Metadata.ManagedFields)
	}
	if d.Singular != "widget" || d.ListKind != "WidgetList" || d.ShortNames[0] != "wd" || d.Categories[0] != "all" || !d.Namespaced || !d.Custom {
		t.Errorf("definition: %+v", d)
	}

	obj := s.mustCreate(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {note: x}}`)
	if diff := cmp.Diff(resource.Tree{"size": int64(3), "note": "x"}, obj["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if _, err := s.create(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: b}, spec: {size: 0}}`); err == nil ||
		err.Error() != `Widget.example.com "b" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1` {
		t.Errorf("error: %v", err)
	}
	if _, err := s.create(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: c, foo: 1}, spec: {extra: {}}}`); err == nil ||
		!strings.HasSuffix(err.Error(), `strict decoding error: unknown field "metadata.foo", unknown field "spec.extra"`) {
		t.Errorf("error: %v", err)
	}
}

func TestNamesInUse(t *testing.T) {
	s := newServer(t)
	s.mustCreate(simple("widgets", "Widget", "shortNames: [wd]"))
	s.established("widgets.example.com")
	s.mustCreate(simple("others", "Widget", "shortNames: [wd, ot]", "singular: other"))
	s.wait("a verdict", func() bool { return len(s.crd("others.example.com").Status.Conditions) > 0 })
	want := `NamesAccepted | False | ListKindConflict | "WidgetList" is already in use` + "\n" +
		"Established | False | NotAccepted | not all names are accepted"
	if got := conditions(s.crd("others.example.com")); got != want {
		t.Errorf("conditions:\n%s\nwant:\n%s", got, want)
	}
	if s.store.Registry().Load().Resource(schema.ParseGroupResource("others.example.com")) != nil {
		t.Error("a definition with refused names is served")
	}
	s.delete("widgets.example.com")
	if d := s.established("others.example.com"); d.Kind != "Widget" || len(d.ShortNames) != 2 {
		t.Errorf("definition: %+v", d)
	}
}

func TestBuiltinNames(t *testing.T) {
	s := newServer(t)
	v := &resource.Version{Name: "v1"}
	s.store.Registry().Put(&resource.Definition{
		Group: "example.com", Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList",
		Versions: []*resource.Version{v}, Storage: v,
	})
	s.mustCreate(simple("widgets", "Gadget", "singular: gadget"))
	s.wait("a verdict", func() bool { return len(s.crd("widgets.example.com").Status.Conditions) > 0 })
	if got := conditions(s.crd("widgets.example.com")); !strings.HasPrefix(got, `NamesAccepted | False | PluralConflict | "widgets" is already in use`) {
		t.Error(got)
	}
}

func (s *server) delete(name string) {
	s.t.Helper()
	r := s.request(s.store.Registry().Load().Resource(Resource), "v1")
	r.Name = name
	if _, err := s.store.Delete(context.Background(), r, nil); err != nil {
		s.t.Fatal(err)
	}
}

func TestDelete(t *testing.T) {
	s := newServer(t)
	s.mustCreate(simple("widgets", "Widget"))
	d := s.established("widgets.example.com")
	s.mustCreate(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}`)
	held := s.mustCreate(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: b, finalizers: [example.com/hold]}}`)

	s.delete("widgets.example.com")
	s.wait("a to go, and b to be marked", func() bool {
		b, _ := s.store.State().Get(d.Key("default", "b"))
		return s.store.State().Count(d.GroupResource()) == 1 && b.Meta.Deleting()
	})
	s.wait("the condition Terminating", func() bool {
		return strings.Contains(conditions(s.crd("widgets.example.com")), "Terminating | True | InstanceDeletionInProgress | CustomResource deletion is in progress")
	})
	if _, err := s.create(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: c}}`); err == nil ||
		!strings.Contains(err.Error(), "create not allowed while custom resource definition is terminating") {
		t.Errorf("create while terminating: %v", err)
	}

	served := s.store.Registry().Load().Resource(d.GroupResource())
	r := s.request(served, "v1")
	r.Name = "b"
	held["metadata"].(map[string]any)["finalizers"] = []any{}
	delete(held["metadata"].(map[string]any), "resourceVersion")
	if _, err := s.store.Patch(context.Background(), r, resource.Patch{
		Type: "application/merge-patch+json", Data: []byte(`{"metadata":{"finalizers":null}}`),
	}); err != nil {
		t.Fatal(err)
	}
	s.wait("the definition to go", func() bool { return s.crd("widgets.example.com") == nil })
	s.wait("the kind to be no longer served", func() bool { return s.store.Registry().Load().Resource(d.GroupResource()) == nil })
	select {
	case <-served.Retired():
	default:
		t.Error("watches did not end")
	}
}

func TestDeleteNeverEstablished(t *testing.T) {
	s := newServer(t)
	s.mustCreate(simple("widgets", "Widget"))
	s.established("widgets.example.com")
	s.mustCreate(simple("others", "Widget", "singular: other"))
	s.wait("a verdict", func() bool { return len(s.crd("others.example.com").Status.Conditions) > 0 })
	s.delete("others.example.com")
	s.wait("the definition to go", func() bool { return s.crd("others.example.com") == nil })
}

// TestRestart starts a controller on existing definitions, and finishes deletions that were under
// way.
func TestRestart(t *testing.T) {
	s := newServer(t)
	s.mustCreate(simple("widgets", "Widget"))
	d := s.established("widgets.example.com")
	s.mustCreate(simple("gadgets", "Gadget"))
	s.established("gadgets.example.com")
	s.mustCreate(`{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}}`)
	s.controller.Close()

	s.delete("gadgets.example.com") // without a running controller
	before := s.store.State().Revision()
	s.start(s.store.State())
	if s.store.Registry().Load().Resource(d.GroupResource()) == nil {
		t.Fatal("not served at once")
	}
	s.wait("the deletion to be finished", func() bool { return s.crd("gadgets.example.com") == nil })
	if m := s.crd("widgets.example.com"); m.object.Revision > before {
		t.Error("a definition with nothing to do was written")
	}
}

// TestChange replaces the served definition if, and only if, something changed.
func TestChange(t *testing.T) {
	s := newServer(t)
	s.mustCreate(simple("widgets", "Widget"))
	d := s.established("widgets.example.com")
	r := s.request(s.store.Registry().Load().Resource(Resource), "v1")
	r.Name = "widgets.example.com"
	patch := func(data string) {
		t.Helper()
		if _, err := s.store.Patch(context.Background(), r, resource.Patch{Type: "application/merge-patch+json", Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"metadata":{"labels":{"a":"b"}}}`)
	patch(`{"spec":{"names":{"shortNames":["wd"]}}}`)
	s.wait("the short name", func() bool {
		d := s.store.Registry().Load().Resource(d.GroupResource())
		return len(d.ShortNames) == 1
	})
	select {
	case <-d.Retired():
	default:
		t.Error("the old definition is still served")
	}
	if m := s.crd("widgets.example.com"); m.Metadata.Generation != 2 {
		t.Errorf("generation %d, want 2", m.Metadata.Generation)
	}
}

// TestManifests creates every manifest that the documents print, and an object of it.
func TestManifests(t *testing.T) {
	tests := []struct {
		file, object string
		subresources string // by version
		status       bool   // whether a create keeps the object's status
		err          string // the error of creating the object
	}{
		{file: "at-crd.yaml", object: "at.yaml", subresources: "v1alpha1: status"},
		{file: "at-crd-status.yaml", object: "at.yaml", subresources: "v1alpha1: status"},
		{file: "at-crd-validation.yaml", object: "at.yaml", subresources: "v1alpha1: status"},
		{file: "at-crd-schema.yaml", object: "at.yaml", subresources: "v1alpha1: status", err: "spec.command: Required value"},
		{file: "at-crd-short-names.yaml", object: "at.yaml", subresources: "v1alpha1:", status: true},
		{file: "at-crd-categories.yaml", object: "at.yaml", subresources: "v1alpha1:", status: true},
		{file: "at-crd-printer-columns.yaml", object: "at.yaml", subresources: "v1alpha1:", status: true},
		{file: "at-crd-scale.yaml", object: "at.yaml", subresources: "v1alpha1: scale", status: true},
		{file: "at-crd-status-null.yaml", object: "at.yaml", subresources: "v1alpha1:", status: true},
		{file: "at-crd-versions.yaml", object: "at.yaml", subresources: "v1beta1: status, v1alpha1:", status: true},
		{file: "crontab-crd.yaml", object: "crontab.yaml", subresources: "v1:"},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			s := newServer(t)
			crd := s.mustCreate(testdata(t, test.file))
			d := s.established(crd["metadata"].(resource.Tree)["name"].(string))
			var subresources []string
			for _, v := range d.Versions {
				line := v.Name + ":"
				for _, sub := range v.Subresources {
					line += " " + sub.Name
				}
				if v.Scale != nil {
					line += " scale"
				}
				subresources = append(subresources, line)
			}
			if got := strings.Join(subresources, ", "); got != test.subresources {
				t.Errorf("subresources %q, want %q", got, test.subresources)
			}
			obj, err := s.create(testdata(t, test.object))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || !apierrors.IsInvalid(err) {
					t.Fatalf("error: %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := s.tree(testdata(t, test.object))
			if diff := cmp.Diff(want["spec"], obj["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if _, has := obj["status"]; has != test.status {
				t.Errorf("status kept: %v, want %v", has, test.status)
			}
		})
	}
}

// TestPatience has an object that is not deleted for a minute.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.mustCreate(simple("widgets", "Widget"))
		synctest.Wait()
		d := s.established("widgets.example.com")
		s.mustCreate(`{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, finalizers: [example.com/hold]}}`)
		s.delete("widgets.example.com")
		synctest.Wait()
		m := s.crd("widgets.example.com")
		if got := conditions(m); !strings.Contains(got, "Terminating | True | InstanceDeletionInProgress") {
			t.Error(got)
		}
		if m.Metadata.Generation != 1 || m.Metadata.DeletionGracePeriodSeconds != nil {
			t.Errorf("marked as deleting: %+v", m.Metadata)
		}
		time.Sleep(patience)
		synctest.Wait()
		if got := conditions(s.crd("widgets.example.com")); !strings.Contains(got, "Terminating | True | InstanceDeletionCheck | could not confirm zero CustomResources remaining: context deadline exceeded") {
			t.Error(got)
		}
		served := s.store.Registry().Load().Resource(d.GroupResource())
		if _, err := s.patch(served, "v1", "", "a", `{"metadata":{"finalizers":null}}`); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.crd("widgets.example.com") != nil || s.store.Registry().Load().Resource(d.GroupResource()) != nil {
			t.Error("still there")
		}
	})
}
