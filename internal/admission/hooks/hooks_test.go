package hooks

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A world is Hooks on a state, and a server with the webhooks.
type world struct {
	*Hooks
	testing.TB
	state  *state.State
	server *httptest.Server
	audit  map[string]string
}

func newWorld(t testing.TB, answer func(path string, r *admissionv1.AdmissionReview)) *world {
	t.Helper()
	j := memory.New()
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		answer(r.URL.Path, &review)
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	caller := webhook.New(webhook.Options{})
	t.Cleanup(func() {
		caller.Close()
		server.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{TB: t, Hooks: New(Options{State: st, Caller: caller}), state: st, server: server, audit: map[string]string{}}
}

// configuration returns one with a webhook, at /NAME of the server, for all resources.
func (w *world) configuration(name string, fields map[string]any) resource.Tree {
	w.Helper()
	hook := map[string]any{
		"name":                    name + ".example.com",
		"admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "matchPolicy": "Equivalent", "failurePolicy": "Fail",
		"namespaceSelector": map[string]any{}, "objectSelector": map[string]any{},
		"clientConfig": map[string]any{"url": w.server.URL + "/" + name, "caBundle": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})},
		"rules":        []any{map[string]any{"operations": []any{"*"}, "apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "resources": []any{"*"}}},
	}
	maps.Copy(hook, fields)
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": name, "uid": name}, "webhooks": []any{hook}})
	if err != nil {
		w.Fatal(err)
	}
	var tree resource.Tree
	if err := json.Unmarshal(data, &tree); err != nil {
		w.Fatal(err)
	}
	return tree
}

// put stores a configuration with one webhook.
func (w *world) put(plural, name string, fields map[string]any) {
	w.Helper()
	tree := w.configuration(name, fields)
	key := object.Key{Resource: schema.GroupResource{Group: group, Resource: plural}, Name: name}
	o, err := object.New(key, tree, 1, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	entry := journal.Entry{Key: key, Object: o}
	if was, _ := w.state.Get(key); was != nil {
		entry.Prev = was.Revision
	}
	if _, err := w.state.Append(w.Context(), journal.Batch{Entries: []journal.Entry{entry}}); err != nil {
		w.Fatal(err)
	}
}

// admitted returns the creation of a config map.
func (w *world) admitted() *resource.Admitted {
	for _, d := range kinds.Definitions() {
		if d.Plural != "configmaps" {
			continue
		}
		r := &resource.Request{
			Definition: d, Version: d.Storage, Namespace: "default", User: authn.Admin(), Warn: func(string) {},
			Annotate: func(key, value string) { w.audit[key] = value },
		}
		return &resource.Admitted{
			Request: r, Operation: resource.OperationCreate, Kind: d.GroupVersionKind(d.Storage), Name: "c",
			Object: resource.Tree{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": map[string]any{"a": "b"}},
		}
	}
	w.Fatal("config maps are not served")
	return nil
}

// counts returns the counters of the metrics.
func (w *world) counts() (lines []string) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.Metrics())
	families, err := registry.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter() == nil {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(f.GetName(), "apiserver_admission_"), strings.Join(labels, ","), m.GetCounter().GetValue()))
		}
	}
	return lines
}

// TestRecords checks the audit annotations and the metrics of calls.
func TestRecords(t *testing.T) {
	w := newWorld(t, func(path string, r *admissionv1.AdmissionReview) {
		switch path {
		case "/changes":
			r.Response.Patch, r.Response.PatchType = []byte(`[{"op":"add","path":"/data/x","value":"y"}]`), new(admissionv1.PatchTypeJSONPatch)
			r.Response.AuditAnnotations = map[string]string{"why": "because"}
		case "/lies":
			r.Response.UID = "x"
		case "/refuses":
			r.Response.Allowed = false
		}
	})
	w.put("mutatingwebhookconfigurations", "changes", nil)
	w.put("mutatingwebhookconfigurations", "lies", map[string]any{"failurePolicy": "Ignore"})
	w.put("validatingwebhookconfigurations", "lies", map[string]any{"failurePolicy": "Ignore"})
	w.put("validatingwebhookconfigurations", "refuses", nil)
	w.put("validatingwebhookconfigurations", "unmet", map[string]any{"matchConditions": []any{map[string]any{"name": "c", "expression": "false"}}})
	a := w.admitted()
	if err := w.Mutating().Mutate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := a.Object["data"]; !object.Equal(got, map[string]any{"a": "b", "x": "y"}) || !a.Passes.Again {
		t.Errorf("got %v, %v", got, a.Passes)
	}
	err := w.Validating().Validate(t.Context(), a)
	if want := `admission webhook "refuses.example.com" denied the request without explanation`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	want := map[string]string{
		"changes.example.com/why":                                         "because",
		"mutation.webhook.admission.k8s.io/round_0_index_0":               `{"configuration":"changes","webhook":"changes.example.com","mutated":true}`,
		"mutation.webhook.admission.k8s.io/round_0_index_1":               `{"configuration":"lies","webhook":"lies.example.com","mutated":false}`,
		"failed-open.mutation.webhook.admission.k8s.io/round_0_index_1":   "lies.example.com",
		"failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "lies.example.com",
	}
	if !maps.Equal(w.audit, want) {
		t.Errorf("audit: got %q\nwant %q", w.audit, want)
	}
	counts := []string{
		"match_condition_exclusions_total{kind=webhook,name=unmet.example.com,operation=CREATE,type=validate} 1",
		"webhook_fail_open_count{name=lies.example.com,type=admit} 1",
		"webhook_fail_open_count{name=lies.example.com,type=validating} 1",
		"webhook_rejection_count{error_type=no_error,name=refuses.example.com,operation=CREATE,rejection_code=400,type=validating} 1",
		"webhook_request_total{code=200,name=changes.example.com,operation=CREATE,rejected=false,type=admit} 1",
		"webhook_request_total{code=400,name=refuses.example.com,operation=CREATE,rejected=true,type=validating} 1",
		"webhook_request_total{code=503,name=lies.example.com,operation=CREATE,rejected=false,type=admit} 1",
		"webhook_request_total{code=503,name=lies.example.com,operation=CREATE,rejected=false,type=validating} 1",
	}
	if got := w.counts(); !slices.Equal(got, counts) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(counts, "\n"))
	}
}

// TestSource checks that configurations are compiled when they change, and only those.
func TestSource(t *testing.T) {
	w := newWorld(t, func(string, *admissionv1.AdmissionReview) {})
	r := w.admitted().Request
	if w.Mutating().Handles(r, resource.OperationCreate) {
		t.Error("a webhook is called although none is configured")
	}
	w.put("mutatingwebhookconfigurations", "b", nil)
	before := w.mutating.Load()
	if w.mutating.Load() != before {
		t.Error("compiled again without a change")
	}
	w.put("mutatingwebhookconfigurations", "a", nil)
	after := hooksOf(w.mutating.Load())
	if len(after) != 2 || after[0].configuration != "a" || after[1] != hooksOf(before)[0] {
		t.Errorf("got %v", after)
	}
	if !w.Mutating().Handles(r, resource.OperationCreate) || w.Validating().Handles(r, resource.OperationCreate) {
		t.Error("the wrong webhooks are called")
	}
	// An unreadable configuration might have a webhook that rejects the request.
	w.put("mutatingwebhookconfigurations", "c", map[string]any{"rules": "none"})
	for range 2 {
		err := w.Mutating().Mutate(t.Context(), w.admitted())
		if want := `configmaps "c" is forbidden: not yet ready to handle request`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		w.put("mutatingwebhookconfigurations", "d", nil) // the unreadable one still counts
	}
}

func hooksOf(s *set) []*hook {
	return slices.Collect(s.all())
}

// remove deletes a configuration.
func (w *world) remove(plural, name string) {
	w.Helper()
	key := object.Key{Resource: schema.GroupResource{Group: group, Resource: plural}, Name: name}
	if o, _ := w.state.Get(key); o != nil {
		if _, err := w.state.Append(w.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Prev: o.Revision}}}); err != nil {
			w.Fatal(err)
		}
	}
}

// TestChangeCostsWhatItChanges checks that only changed configurations are read, and only their
// changed webhooks compiled, however many there are.
func TestChangeCostsWhatItChanges(t *testing.T) {
	const plural = "mutatingwebhookconfigurations"
	for _, n := range []int{10, 100, 1000} {
		w := newWorld(t, func(string, *admissionv1.AdmissionReview) {})
		for i := range n {
			w.put(plural, fmt.Sprint("c", i), nil)
		}
		check := func(what string, read, compiled int) {
			t.Helper()
			if s := w.mutating.Load(); s.read != read || s.compiled != compiled {
				t.Errorf("of %d: %s: %d configurations read, %d webhooks compiled, want %d and %d", n, what, s.read, s.compiled, read, compiled)
			}
		}
		check("at first", n, n)
		w.put(plural, "c1", nil)
		check("written as it was", 1, 0)
		for range 5 {
			w.put(plural, "c1", map[string]any{"failurePolicy": "Ignore"})
		}
		check("a burst of changes of one", 1, 1)
		w.remove(plural, "c1")
		check("deleted", 0, 0)
	}
}

// TestRandomConfigurations compares the webhooks after random changes with those of a set built
// from scratch.
func TestRandomConfigurations(t *testing.T) {
	const plural = "validatingwebhookconfigurations"
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, func(string, *admissionv1.AdmissionReview) {})
	for range 500 {
		for range r.IntN(4) {
			name := fmt.Sprint("c", r.IntN(6))
			switch r.IntN(5) {
			case 0:
				w.remove(plural, name)
			case 1:
				w.put(plural, name, map[string]any{"rules": "none"}) // cannot be read
			default:
				w.put(plural, name, map[string]any{"timeoutSeconds": 1 + r.IntN(3)})
			}
		}
		got, want := w.validating.Load(), newSource(Options{State: w.state}, plural).Load()
		if (got.err == nil) != (want.err == nil) || got.err != nil && got.err.Error() != want.err.Error() {
			t.Fatalf("error %v, from scratch %v", got.err, want.err)
		}
		if !slices.EqualFunc(hooksOf(got), hooksOf(want), func(a, b *hook) bool {
			return a.uid == b.uid && a.timeout == b.timeout && reflect.DeepEqual(a.MutatingWebhook, b.MutatingWebhook)
		}) {
			t.Fatalf("%d webhooks, and from scratch %d", len(hooksOf(got)), len(hooksOf(want)))
		}
	}
}

// BenchmarkAfterChange changes one configuration, and looks up the webhooks to call. All
// configurations but one are for other groups.
func BenchmarkAfterChange(b *testing.B) {
	const plural = "mutatingwebhookconfigurations"
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint("configurations=", n), func(b *testing.B) {
			w := newWorld(b, func(string, *admissionv1.AdmissionReview) {})
			for i := range n {
				w.put(plural, fmt.Sprint("c", i), map[string]any{"rules": []any{map[string]any{
					"operations": []any{"*"}, "apiGroups": []any{fmt.Sprint("g", i)}, "apiVersions": []any{"*"}, "resources": []any{"*"},
				}}})
			}
			a := w.admitted()
			i := 0
			w.mutating.Load()
			for b.Loop() {
				b.StopTimer()
				w.put(plural, "c0", map[string]any{"timeoutSeconds": 1 + i%2, "rules": []any{}})
				i++
				b.StartTimer()
				if err := w.Mutating().Mutate(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
