package crd

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An entry is what the controller knows of one CustomResourceDefinition.
type entry struct {
	manifest *manifest
	served   *resource.Definition // what is in the registry; nil if nothing
	shape    shape                // of what served was made from
	source   *source              // of the schemas of served
	finishes bool                 // a goroutine of its own deletes the objects
}

// A shape is what a definition is made from: where it has not changed, the definition has not either.
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

// serve puts into the registry what a definition says now, or takes it out.
func (c *Controller) serve(e *entry, m *manifest) {
	if d := c.define(e, m); d != nil {
		c.store.Registry().Put(d)
	}
}

// define brings an entry up to date, and returns the definition that is to be served from now on, if it is not served
// already. What is not to be served any more it takes out of the registry.
func (c *Controller) define(e *entry, m *manifest) *resource.Definition {
	e.manifest = m
	if !m.is(apiextensionsv1.Established) && !m.installing() {
		c.unserve(e)
		return nil
	}
	now := shapeOf(m)
	if e.served != nil && e.shape == now {
		e.source.newest.Store(m.object) // so that nothing else keeps the older one
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
