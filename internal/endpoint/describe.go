package endpoint

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/endpoint/openapi"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OpenAPI returns the handler of the OpenAPI documents of everything that a registry and other
// servers serve at the time of a request.
func OpenAPI(registry *resource.Registry, others *aggregate.Aggregator, version string) http.Handler {
	type described struct {
		catalogue *catalogue
		snapshot  *openapi.Snapshot
	}
	var last atomic.Pointer[described]
	return openapi.New(func() *openapi.Snapshot {
		set, foreign := registry.Load(), others.Load()
		known := last.Load()
		if known != nil && known.catalogue.set == set && known.catalogue.others == foreign {
			return known.snapshot
		}
		var before *catalogue
		if known != nil {
			before = known.catalogue
		}
		now := newCatalogue(set, foreign, before)
		d := &described{now, describe(now, version)}
		last.Store(d)
		return d.snapshot
	})
}

// describe returns the resources of a catalogue, with the content of discovery and references to
// their schemas.
func describe(c *catalogue, version string) *openapi.Snapshot {
	snapshot := &openapi.Snapshot{Version: version}
	for _, group := range c.groups {
		for _, gv := range group.versions {
			if gv.remote != nil {
				documents, url := gv.remote.OpenAPI()
				snapshot.Foreign = append(snapshot.Foreign, openapi.Foreign{
					Name: "apis/" + gv.String(), URL: url, V2: documents.V2, V2Tag: documents.V2Tag,
				})
			}
			for _, d := range gv.kinds {
				snapshot.Resources = append(snapshot.Resources, describeKind(gv, d))
			}
		}
	}
	return snapshot
}

func describeKind(gv *groupVersion, d *resource.Definition) openapi.Resource {
	r := openapi.Resource{
		Group: gv.Group, Version: gv.Version, Plural: d.Plural, Kind: d.Kind, ListKind: d.ListKind,
		Namespaced:          d.Namespaced,
		Verbs:               gv.resource(d).Verbs,
		DeleteAnswersObject: d.Deletion.ReturnsObject,
	}
	for _, sub := range gv.subresources(d) {
		r.Subresources = append(r.Subresources, describeSubresource(gv, d, sub))
	}
	if v := d.Version(gv.GroupVersion); d.Custom {
		r.Custom = describeCustom(v)
	}
	return r
}

func describeCustom(v *resource.Version) *openapi.Custom {
	c := &openapi.Custom{}
	if p := v.Published; p != nil {
		c.Fingerprint, c.Schema, c.PreserveUnknownFields = p.Fingerprint, p.Schema, p.PreserveUnknownFields
	}
	for _, field := range v.Selectable {
		c.SelectableFields = append(c.SelectableFields, "."+field)
	}
	return c
}

func describeSubresource(gv *groupVersion, d *resource.Definition, sub metav1.APIResource) openapi.Subresource {
	kind := schema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}
	if sub.Version == "" {
		kind.Group, kind.Version = gv.Group, gv.Version
	}
	return openapi.Subresource{
		Name:  strings.TrimPrefix(sub.Name, d.Plural+"/"),
		Kind:  kind,
		Verbs: sub.Verbs,
	}
}
