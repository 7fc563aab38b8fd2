package hooks

import (
	"slices"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admission/v1"
)

// TestFiles checks that the webhooks of files are called before those in the state, and also for
// configurations; and that the next set replaces them.
func TestFiles(t *testing.T) {
	var mu sync.Mutex
	var called []string
	w := newWorld(t, func(path string, _ *admissionv1.AdmissionReview) {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, path)
	})
	use := func(names ...string) {
		var all []resource.Tree
		for _, name := range names {
			all = append(all, w.configuration(name, nil))
		}
		if err := w.UseMutating(all); err != nil {
			t.Fatal(err)
		}
		if err := w.UseValidating(all); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, plural string, want ...string) {
		t.Helper()
		a := w.admitted()
		a.Request.Definition = definition(t, plural)
		a.Kind = a.Request.Definition.GroupVersionKind(a.Request.Definition.Storage)
		a.Request.Version = a.Request.Definition.Storage
		called = nil
		if p := w.Mutating(); p.Handles(a.Request, a.Operation) {
			if err := p.Mutate(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(called, want) {
			t.Errorf("%s: mutating webhooks %v, want %v", what, called, want)
		}
		called = nil
		if p := w.Validating(); p.Handles(a.Request, a.Operation) {
			if err := p.Validate(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(called)
		slices.Sort(want)
		if !slices.Equal(called, want) {
			t.Errorf("%s: validating webhooks %v, want %v", what, called, want)
		}
	}
	check("none", "configmaps")
	use("y", "z")
	check("files", "configmaps", "/y", "/z")
	check("files", "validatingwebhookconfigurations", "/y", "/z")
	reviews := &resource.Request{Definition: definition(t, "tokenreviews")}
	if w.Mutating().Handles(reviews, resource.OperationCreate) || w.Validating().Handles(reviews, resource.OperationCreate) {
		t.Error("webhooks are called for token reviews")
	}
	w.mutating.forReviews = true
	if !w.Mutating().Handles(reviews, resource.OperationCreate) {
		t.Error("with CallForReviews, no webhook is called for token reviews")
	}
	w.mutating.forReviews = false
	w.put("mutatingwebhookconfigurations", "a", nil)
	w.put("validatingwebhookconfigurations", "a", nil)
	check("files and state", "configmaps", "/y", "/z", "/a")
	check("files and state", "mutatingadmissionpolicies", "/y", "/z")
	use("x")
	check("other files", "configmaps", "/x", "/a")
	use()
	check("state", "configmaps", "/a")
	check("state", "mutatingadmissionpolicies")
}

func definition(t *testing.T, plural string) *resource.Definition {
	t.Helper()
	for _, d := range kinds.Definitions() {
		if d.Plural == plural {
			return d
		}
	}
	t.Fatalf("no resource %s", plural)
	return nil
}
