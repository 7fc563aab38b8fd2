package endpoint

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// interrupted is a model that runs a function in the middle of a write.
type interrupted struct {
	freeModel
	by func()
}

func (m interrupted) Validate(context.Context, resource.Tree, resource.Tree, string) field.ErrorList {
	m.by()
	return nil
}

// TestDefinitionChangesDuringWrite replaces the definition of a resource during a write, which uses
// the definition that is current when it commits.
func TestDefinitionChangesDuringWrite(t *testing.T) {
	resourceOf := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for name, c := range map[string]struct {
		change func(*resource.Registry)
		code   int
	}{
		"replaced": {func(r *resource.Registry) { r.Put(widgets()) }, http.StatusCreated},
		"cluster":  {func(r *resource.Registry) { d := widgets(); d.Namespaced = false; r.Put(d) }, http.StatusNotFound},
		"version": {func(r *resource.Registry) {
			d := widgets()
			d.Versions, d.Storage = d.Versions[1:], d.Versions[1]
			r.Put(d)
		}, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			registry := s.store.Registry()
			d := widgets()
			var once sync.Once
			d.Storage.Model = interrupted{by: func() { once.Do(func() { c.change(registry) }) }}
			registry.Put(d)
			if w := s.do("POST", widgetPath, widget("a", "")); w.Code != c.code {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.code)
			}
			if now := registry.Load().Resource(resourceOf); now == d {
				t.Error("the definition did not change")
			}
		})
	}
}
