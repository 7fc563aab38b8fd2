package crd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server is a store with CustomResourceDefinitions, a controller that follows them, and a
// namespace "default".
type server struct {
	t          testing.TB
	store      *resource.Store
	controller *Controller
	warnings   []string
}

// namespaceKind returns a stand-in for namespaces, which only have to exist here.
func namespaceKind() *resource.Definition {
	free := newModel(&manifest{Spec: manifestSpec{PreserveUnknownFields: true}}, newSource(&object.Object{Raw: []byte("{}")}, newPrograms()),
		&manifestVersion{Name: "v1"}, nil)
	v := &resource.Version{Name: "v1", Model: free}
	return &resource.Definition{
		Plural: "namespaces", Singular: "namespace", Kind: "Namespace", ListKind: "NamespaceList",
		Versions: []*resource.Version{v}, Storage: v,
	}
}

func newServer(t testing.TB) *server {
	t.Helper()
	j := memory.New()
	st, err := state.Open(context.Background(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	s := &server{t: t}
	s.start(st)
	t.Cleanup(func() { s.controller.Close() })
	ns, err := object.New(object.Key{Resource: schema.GroupResource{Resource: "namespaces"}, Name: "default"}, resource.Tree{
		"apiVersion": "v1", "kind": "Namespace", "metadata": resource.Tree{"name": "default", "uid": "ns"},
	}, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.append(ns)
	return s
}

// start starts a controller on a state.
func (s *server) start(st *state.State) {
	s.t.Helper()
	s.store = resource.NewStore(st, resource.NewRegistry(namespaceKind(), Definition(true)))
	c, err := Start(context.Background(), s.store, nil, webhook.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	s.controller = c
}

func (s *server) request(d *resource.Definition, version string) *resource.Request {
	s.t.Helper()
	v := served(d, version)
	if v == nil {
		s.t.Fatalf("%s is not served in version %s", d.GroupResource(), version)
	}
	r := &resource.Request{
		Definition: d, Version: v, Manager: "test", FieldValidation: metav1.FieldValidationStrict,
		Warn: func(w string) { s.warnings = append(s.warnings, w) },
	}
	if d.Namespaced {
		r.Namespace = "default"
	}
	return r
}

// tree parses YAML.
func (s *server) tree(text string) resource.Tree {
	s.t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	var obj resource.Tree
	if err := yaml.Unmarshal(data, &obj); err != nil {
		s.t.Fatal(err)
	}
	return obj
}

// of returns a request for the kind and version of an object.
func (s *server) of(text string) (*resource.Request, resource.Body) {
	s.t.Helper()
	obj := s.tree(text)
	gvk := schema.FromAPIVersionAndKind(obj["apiVersion"].(string), obj["kind"].(string))
	d := s.store.Registry().Load().Kind(gvk.GroupKind())
	if d == nil {
		s.t.Fatalf("%s is not served", gvk)
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.request(d, gvk.Version), resource.Body{Data: data}
}

func (s *server) create(text string) (resource.Tree, error) {
	s.t.Helper()
	r, body := s.of(text)
	result, err := s.store.Create(context.Background(), r, body)
	if err != nil {
		return nil, err
	}
	return s.read(r, result.Object), nil
}

func (s *server) mustCreate(text string) resource.Tree {
	s.t.Helper()
	obj, err := s.create(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return obj
}

func (s *server) read(r *resource.Request, o *object.Object) resource.Tree {
	s.t.Helper()
	obj, err := resource.TreeOf(r.Definition, r.Version, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return obj
}

// wait waits for a condition, which it checks after every change.
func (s *server) wait(what string, holds func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		set := s.store.Registry().Load()
		_, changed := s.store.State().Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-set.Changed():
		case <-ctx.Done():
			s.t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// crd returns a stored definition; nil if it is gone.
func (s *server) crd(name string) *manifest {
	s.t.Helper()
	o, _ := s.store.State().Get(object.Key{Resource: Resource, Name: name})
	if o == nil {
		return nil
	}
	m, err := readManifest(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// established waits until a definition is established, and returns the served definition.
func (s *server) established(name string) *resource.Definition {
	s.t.Helper()
	s.wait(name+" to be established", func() bool { m := s.crd(name); return m != nil && m.is(apiextensionsv1.Established) })
	d := s.store.Registry().Load().Resource(schema.ParseGroupResource(name))
	if d == nil {
		s.t.Fatalf("%s is established, but not served", name)
	}
	return d
}

func (s *server) append(o *object.Object) {
	s.t.Helper()
	if err := appendObject(s.store.State(), o); err != nil {
		s.t.Fatal(err)
	}
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// simple returns a CustomResourceDefinition of version v1.
func simple(plural, kind string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %[1]s, kind: %[2]s%[3]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, minimum: 1, default: 3}
              note: {type: string}
`, plural, kind, strings.Join(append([]string{""}, more...), ", "))
}

// served returns a version of the definition's own group.
func served(d *resource.Definition, version string) *resource.Version {
	return d.Version(schema.GroupVersion{Group: d.Group, Version: version})
}
