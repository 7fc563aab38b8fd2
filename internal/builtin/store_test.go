package builtin

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// server is a store of all built-in kinds, with the namespace ns.
type server struct {
	t        *testing.T
	store    *resource.Store
	warnings []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	j := memory.New()
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	s := &server{t: t, store: resource.NewStore(st, resource.NewRegistry(Definitions()...))}
	s.tree("namespaces", s.must(s.create("namespaces", `{metadata: {name: ns}}`)))
	return s
}

func (s *server) request(plural, name, subresource string) *resource.Request {
	d := definitionOf(s.t, plural)
	for _, other := range s.store.Registry().Load().All() {
		if other.Plural == plural {
			d = other
		}
	}
	r := &resource.Request{
		Definition: d, Version: d.Storage, Name: name, Subresource: subresource, Manager: "test",
		FieldValidation: metav1.FieldValidationStrict, Warn: func(w string) { s.warnings = append(s.warnings, w) },
	}
	if d.Namespaced {
		r.Namespace = "ns"
	}
	return r
}

func (s *server) body(text string) resource.Body {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return resource.Body{Data: data}
}

func (s *server) create(plural, text string) (resource.Result, error) {
	return s.store.Create(s.t.Context(), s.request(plural, "", ""), s.body(text))
}

func (s *server) update(plural, name, subresource, text string) (resource.Result, error) {
	return s.store.Update(s.t.Context(), s.request(plural, name, subresource), s.body(text))
}

func (s *server) patch(plural, name, subresource string, kind types.PatchType, text string) (resource.Result, error) {
	patch := resource.Patch{Type: kind, Data: s.body(text).Data, Force: true}
	return s.store.Patch(s.t.Context(), s.request(plural, name, subresource), patch)
}

func (s *server) must(result resource.Result, err error) resource.Result {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

func (s *server) tree(plural string, result resource.Result) resource.Tree {
	s.t.Helper()
	if result.Tree != nil {
		return result.Tree
	}
	d := definitionOf(s.t, plural)
	tree, err := resource.TreeOf(d, d.Storage, result.Object)
	if err != nil {
		s.t.Fatal(err)
	}
	return tree
}

const container = `{name: c, image: "i:1"}`

// sample is an object of a kind that Kubernetes takes: one file a kind, named as kubectl names the resource.
func sample(t testing.TB, plural string) string {
	t.Helper()
	gr := definitionOf(t, plural).GroupResource()
	data, err := os.ReadFile("testdata/kinds/" + gr.String() + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestEveryKindLives takes an object of each kind through all writes.
func TestEveryKindLives(t *testing.T) {
	s := newServer(t)
	for _, d := range Definitions() {
		if d.Action != nil {
			continue
		}
		created := s.must(s.create(d.Plural, sample(t, d.Plural)))
		revision, name := created.Object.Revision, created.Object.Key.Name
		head := fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: %q, `, d.APIVersion(d.Storage), d.Kind, name)

		again := s.must(s.patch(d.Plural, name, "", types.MergePatchType, `{}`))
		if got := again.Object.Revision; got != revision {
			t.Errorf("%s: a patch that changes nothing is a write", d.Plural)
		}
		labelled := s.tree(d.Plural, s.must(s.patch(d.Plural, name, "", types.StrategicMergePatchType, `{metadata: {labels: {l: m}}}`)))
		if text(labelled, "metadata", "labels", "l") != "m" {
			t.Errorf("%s: labels are %v", d.Plural, get(labelled, "metadata", "labels"))
		}
		applied := s.tree(d.Plural, s.must(s.patch(d.Plural, name, "", types.ApplyPatchType, head+`annotations: {k: v}}}`)))
		if text(applied, "metadata", "annotations", "k") != "v" {
			t.Errorf("%s: annotations are %v", d.Plural, get(applied, "metadata", "annotations"))
		}
		for _, sub := range d.Storage.Subresources {
			if !sub.UpdateOnly && sub.Action == nil {
				s.must(s.patch(d.Plural, name, sub.Name, types.MergePatchType, `{metadata: {annotations: {s: t}}}`))
			}
		}
		if _, err := s.patch(d.Plural, name, "", types.MergePatchType, `{nothing: 1}`); err == nil || !strings.Contains(err.Error(), `unknown field "nothing"`) {
			t.Errorf("%s: an unknown field: %v", d.Plural, err)
		}
		deleted := s.must(s.store.Delete(t.Context(), s.request(d.Plural, name, ""), &metav1.DeleteOptions{}))
		if returned := deleted.Object != nil; returned != (d.Hooks.DeleteReturnsObject || d.Hooks.OrphanByDefault) {
			t.Errorf("%s: deletion returns an object: %v", d.Plural, returned)
		}
	}
}

func TestNamespaceLife(t *testing.T) {
	s := newServer(t)
	options := &metav1.DeleteOptions{}
	gone := s.tree("namespaces", s.must(s.store.Delete(t.Context(), s.request("namespaces", "ns", ""), options)))
	if text(gone, "status", "phase") != "Terminating" || get(gone, "metadata", "deletionTimestamp") == nil {
		t.Errorf("deleted: %v", gone)
	}
	if _, err := s.create("configmaps", sample(t, "configmaps")); err == nil || !strings.Contains(err.Error(), "because it is being terminated") {
		t.Errorf("a namespace that ends takes new objects: %v", err)
	}
	s.must(s.update("namespaces", "ns", "finalize", `{apiVersion: v1, kind: Namespace, metadata: {name: ns}, spec: {finalizers: []}}`))
	if _, err := s.store.Get(t.Context(), s.request("namespaces", "ns", ""), ""); err == nil {
		t.Error("a finalized namespace is still there")
	}
}

func TestDeploymentScale(t *testing.T) {
	s := newServer(t)
	s.must(s.create("deployments", sample(t, "deployments")))
	scale := s.must(s.patch("deployments", "a", "scale", types.MergePatchType, `{spec: {replicas: 5}}`)).Tree
	if get(scale, "spec", "replicas") != int64(5) || text(scale, "status", "selector") != "x=z" {
		t.Errorf("scale is %v", scale)
	}
	d := s.tree("deployments", s.must(s.store.Get(t.Context(), s.request("deployments", "a", ""), "")))
	if get(d, "spec", "replicas") != int64(5) || get(d, "metadata", "generation") != int64(2) {
		t.Errorf("deployment is %v", d)
	}
}

func TestStatusIsWrittenApart(t *testing.T) {
	s := newServer(t)
	s.must(s.create("pods", sample(t, "pods")))
	pod := s.tree("pods", s.must(s.patch("pods", "a", "", types.MergePatchType, `{status: {phase: Running}}`)))
	if phase := text(pod, "status", "phase"); phase != "Pending" {
		t.Errorf("phase is %s", phase)
	}
	pod = s.tree("pods", s.must(s.patch("pods", "a", "status", types.StrategicMergePatchType, `{spec: {nodeName: node}, status: {phase: Running, podIP: 1.2.3.4}}`)))
	if phase := text(pod, "status", "phase"); phase != "Running" || text(pod, "spec", "nodeName") != "" || len(get(pod, "status", "podIPs").([]any)) != 1 {
		t.Errorf("pod is %v", pod)
	}
	if generation := get(pod, "metadata", "generation"); generation != int64(1) {
		t.Errorf("generation is %v", generation)
	}
}

// TestStrategicMergeByName changes one of two containers.
func TestStrategicMergeByName(t *testing.T) {
	s := newServer(t)
	s.must(s.create("deployments", sample(t, "deployments")))
	d := s.tree("deployments", s.must(s.patch("deployments", "a", "", types.StrategicMergePatchType,
		`{spec: {template: {spec: {containers: [{name: d, image: "j:1"}]}}}}`)))
	containers, _ := get(d, "spec", "template", "spec", "containers").([]any)
	if len(containers) != 2 || text(containers[0].(resource.Tree), "image") != "j:1" || text(containers[0].(resource.Tree), "imagePullPolicy") != "IfNotPresent" {
		t.Errorf("containers are %v", containers)
	}
}
