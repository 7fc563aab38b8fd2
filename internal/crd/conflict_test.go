package crd

import (
	"context"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestServedThroughConflict deletes a definition while its conditions are written for the first
// time. It is served then, and clients may have created objects: it stays served until they are
// gone.
func TestServedThroughConflict(t *testing.T) {
	s := newServer(t)
	const gr = "ws.example.com"
	kind, resources := s.store.Registry().Load().Resource(Resource), schema.ParseGroupResource(gr)
	var served *resource.Definition
	s.store.SetGate(resource.Gate{Claim: func(_ *resource.Claims, r *resource.Request, _, old resource.Tree) error {
		switch {
		case r.Definition != kind || old == nil:
		case served == nil:
			served = s.store.Registry().Load().Resource(resources)
			s.mustCreate("{apiVersion: example.com/v1, kind: W, metadata: {name: one}, spec: {a: x}}")
			request := s.request(kind, "v1")
			request.Name = gr
			if _, err := s.store.Delete(context.Background(), request, nil); err != nil {
				t.Error(err)
			}
		case s.store.State().Count(resources) > 0:
			select {
			case <-served.Retired():
				t.Error("the definition was withdrawn while it had an object")
			default:
			}
		}
		return nil
	}})
	s.mustCreate(mutatedDefinition)
	s.wait(gr+" to be gone", func() bool {
		o, _ := s.store.State().Get(object.Key{Resource: Resource, Name: gr})
		return o == nil && s.store.Registry().Load().Resource(resources) == nil
	})
	if n := s.store.State().Count(resources); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}
