package crd

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An entry is the controller's state of one CustomResourceDefinition.
type entry struct {
	manifest *manifest
	served   *resource.Definition // in the registry; nil if not served
	shape    shape                // the inputs from which served was made
	source   *source              // of the schemas of served
	finishes bool                 // a goroutine is deleting the objects
}

// A shape has the inputs of a definition: equal shapes give equal definitions.
type shape struct {
	uid         types.UID
	generation  int64
	names       string
	terminating bool
}

func shapeOf(m *manifest) shape {
	n := &m.Status.AcceptedNames
	return shape{
		uid:        m.Metadata.UID,
		generation: m.Metadata.Generation,
		names: strings.Join([]string{n.Plural, n.Singular, n.Kind, n.ListKind,
			strings.Join(n.ShortNames, ","), strings.Join(n.Categories, ",")}, "|"),
		terminating: m.terminating(),
	}
}

// serve adds the definition to the registry, replaces it, or removes it.
func (c *Controller) serve(e *entry, m *manifest) {
	if d := c.define(e, m); d != nil {
		c.store.Registry().Put(d)
	}
}

// define updates an entry, and returns the definition to register, or nil if the registry needs no
// new one. It removes a definition from the registry that must not be served any more.
func (c *Controller) define(e *entry, m *manifest) *resource.Definition {
	e.manifest = m
	if !m.is(apiextensionsv1.Established) && !m.installing() {
		c.unserve(e)
		return nil
	}
	now := shapeOf(m)
	if e.served != nil && e.shape == now {
		e.source.newest.Store(m.object) // releases the older object
		return nil
	}
	if was := e.shape; e.served != nil && !was.terminating {
		if was.terminating = true; was == now {
			e.source.newest.Store(m.object)
			e.served, e.shape = e.served.AsTerminating(), now
			return e.served
		}
	}
	from := newSource(m.object, c.programs)
	d, err := customDefinition(m, from, c.webhooks)
	if err != nil || len(d.Versions) == 0 {
		c.unserve(e)
		return nil
	}
	if e.served != nil && e.served.GroupResource() != d.GroupResource() {
		c.unserve(e)
	}
	e.served, e.shape, e.source = d, now, from
	return d
}

func (c *Controller) unserve(e *entry) {
	if e.served != nil {
		c.store.Registry().Remove(e.served.GroupResource())
		e.served = nil
	}
}
