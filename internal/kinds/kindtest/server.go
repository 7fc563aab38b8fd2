package kindtest

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// A Server is a store of all built-in kinds, with the namespace ns.
type Server struct {
	T        *testing.T
	Store    *resource.Store
	Warnings []string
}

// NewServer opens a store of all built-in kinds in memory and creates the namespace ns. It is
// closed with the test.
func NewServer(t *testing.T) *Server {
	t.Helper()
	j := memory.New()
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	s := &Server{T: t, Store: resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...))}
	s.Tree("namespaces", s.Must(s.Create("namespaces", `{metadata: {name: ns}}`)))
	return s
}

// Request returns a request about an object, in the namespace ns if the kind has namespaces. The
// request collects warnings in s.Warnings.
func (s *Server) Request(plural, name, subresource string) *resource.Request {
	d := Definition(s.T, plural)
	for _, other := range s.Store.Registry().Load().All() {
		if other.Plural == plural {
			d = other
		}
	}
	r := &resource.Request{
		Definition: d, Version: d.Storage, Name: name, Subresource: subresource, Manager: "test",
		FieldValidation: metav1.FieldValidationStrict, Warn: func(w string) { s.Warnings = append(s.Warnings, w) },
	}
	if d.Namespaced {
		r.Namespace = "ns"
	}
	return r
}

// Body returns YAML as the body of a request.
func (s *Server) Body(text string) resource.Body {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.T.Fatal(err)
	}
	return resource.Body{Data: data}
}

// Create creates the object in a YAML text.
func (s *Server) Create(plural, text string) (resource.Result, error) {
	return s.Store.Create(s.T.Context(), s.Request(plural, "", ""), s.Body(text))
}

// Update replaces an object, or a part of it, by a YAML text.
func (s *Server) Update(plural, name, subresource, text string) (resource.Result, error) {
	return s.Store.Update(s.T.Context(), s.Request(plural, name, subresource), s.Body(text))
}

// Patch applies a patch in YAML to an object; server-side apply takes over conflicting fields.
func (s *Server) Patch(plural, name, subresource string, kind types.PatchType, text string) (resource.Result, error) {
	patch := resource.Patch{Type: kind, Data: s.Body(text).Data, Force: true}
	return s.Store.Patch(s.T.Context(), s.Request(plural, name, subresource), patch)
}

// Must fails the test on an error.
func (s *Server) Must(result resource.Result, err error) resource.Result {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
	return result
}

// Tree returns the object of a result in its storage version.
func (s *Server) Tree(plural string, result resource.Result) resource.Tree {
	s.T.Helper()
	if result.Tree != nil {
		return result.Tree
	}
	d := Definition(s.T, plural)
	tree, err := resource.TreeOf(d, d.Storage, result.Object)
	if err != nil {
		s.T.Fatal(err)
	}
	return tree
}

// Delete deletes an object.
func (s *Server) Delete(plural, name string) error {
	_, err := s.Store.Delete(s.T.Context(), s.Request(plural, name, ""), &metav1.DeleteOptions{})
	return err
}

// Get returns an object, nil if there is none.
func (s *Server) Get(plural, name string) resource.Tree {
	s.T.Helper()
	r := s.Request(plural, name, "")
	result, err := s.Store.Get(s.T.Context(), r, "")
	if apierrors.IsNotFound(err) {
		return nil
	}
	tree, err := resource.TreeOf(r.Definition, r.Version, s.Must(result, err).Object)
	if err != nil {
		s.T.Fatal(err)
	}
	return tree
}
