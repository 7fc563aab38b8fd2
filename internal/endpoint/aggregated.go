package endpoint

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kapok-dev/kapok/internal/resource"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answerAggregated answers with all groups, versions and resources at once, of
// the core group or of all others. v2 and v2beta1 differ in their name only.
// (Kubernetes has dropped v2beta1 with 1.33; older clients still know no other.)
func (c *call) answerAggregated(m media, core bool) {
	doc, err := c.h.catalogue().aggregated(core, m)
	if err != nil {
		c.fail(err)
		return
	}
	header := c.w.Header()
	header.Set("ETag", strconv.Quote(doc.etag))
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "public")
	if c.r.Header.Get("If-None-Match") == strconv.Quote(doc.etag) {
		c.w.WriteHeader(http.StatusNotModified)
		return
	}
	m.pretty = m.pretty || wantsPretty(c.r)
	out := c.output(http.StatusOK, m)
	out.contentType = fmt.Sprintf("%s;g=%s;v=%s;as=%s", m.contentType(), m.as.Group, m.as.Version, m.as.Kind)
	out.buf = append(out.buf, doc.bytes...)
	out.end()
}

// aggregated returns the aggregated document, made on first use.
func (c *catalogue) aggregated(core bool, m media) (*document, error) {
	kept := m.encoding
	if kept == asYAML {
		kept = asJSON
	}
	key := documentKey{fmt.Sprintf("aggregated/%s/%t", m.as.Version, core), kept}
	if known, ok := c.documents.Load(key); ok {
		return known.(*document), nil
	}
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	for _, g := range c.groups {
		if (g.name == "") == core {
			list.Items = append(list.Items, g.aggregated())
		}
	}
	// The tag is that of the content, whatever the encoding.
	content, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	list.Kind, list.APIVersion = m.as.Kind, m.as.GroupVersion().String()
	encoded, err := appendTyped(nil, kept, list, list.APIVersion, list.Kind)
	if err != nil {
		return nil, err
	}
	made, _ := c.documents.LoadOrStore(key, &document{bytes: encoded, etag: fmt.Sprintf("%X", sha512.Sum512(content))})
	return made.(*document), nil
}

func (g *apiGroup) aggregated() apidiscoveryv2.APIGroupDiscovery {
	group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, gv := range g.versions {
		version := apidiscoveryv2.APIVersionDiscovery{
			Version:   gv.Version,
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
		}
		for _, d := range gv.kinds {
			version.Resources = append(version.Resources, gv.aggregated(d))
		}
		group.Versions = append(group.Versions, version)
	}
	return group
}

func (gv *groupVersion) aggregated(d *resource.Definition) apidiscoveryv2.APIResourceDiscovery {
	r := gv.resource(d)
	all := apidiscoveryv2.APIResourceDiscovery{
		Resource:         r.Name,
		ResponseKind:     gv.responseKind(&r),
		Scope:            apidiscoveryv2.ScopeCluster,
		SingularResource: r.SingularName,
		Verbs:            r.Verbs,
		ShortNames:       r.ShortNames,
		Categories:       r.Categories,
	}
	if r.Namespaced {
		all.Scope = apidiscoveryv2.ScopeNamespace
	}
	for _, sub := range gv.subresources(d) {
		all.Subresources = append(all.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource:  sub.Name[len(d.Plural)+1:],
			ResponseKind: gv.responseKind(&sub),
			Verbs:        sub.Verbs,
		})
	}
	return all
}

// responseKind is the kind of a resource, with group and version. Those of
// built-in kinds are only told where they are not those of the document, as in
// Kubernetes.
func (gv *groupVersion) responseKind(r *metav1.APIResource) *metav1.GroupVersionKind {
	kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if gv.custom && kind.Version == "" {
		kind.Group, kind.Version = gv.Group, gv.Version
	}
	return kind
}
