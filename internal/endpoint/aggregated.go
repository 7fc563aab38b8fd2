package endpoint

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/kapok-dev/kapok/internal/resource"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answerAggregated responds with the aggregated discovery document of the core group or of all
// other groups. v2 and v2beta1 differ in their name only. (Kubernetes dropped v2beta1 in 1.33;
// older clients support no other version.)
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

// aggregated returns the aggregated document. It is made on first use from the documents of its
// groups, most of which are cached.
func (c *catalogue) aggregated(core bool, m media) (*document, error) {
	return c.documents.tagged(fmt.Sprintf("aggregated/%s/%t", m.as.Version, core), m.encoding, func(e encoding) (*document, error) {
		content := sha512.New()
		var items []byte
		for _, g := range c.groups {
			if (g.name == "") != core {
				continue
			}
			item, err := g.item(e)
			if err != nil {
				return nil, err
			}
			if e != asProtobuf && len(items) > 0 {
				items = append(items, ',')
			}
			items = append(items, item.bytes...)
			io.WriteString(content, item.etag)
		}
		apiVersion := m.as.GroupVersion().String()
		doc := &document{etag: fmt.Sprintf("%X", content.Sum(nil))}
		if e == asProtobuf {
			doc.bytes = appendEnvelope(nil, apiVersion, m.as.Kind, items)
			return doc, nil
		}
		doc.bytes = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{},"items":[%s]}`, m.as.Kind, apiVersion, items)
		return doc, nil
	})
}

// item is the group in the aggregated document: an element of the list in JSON, and a list with one
// element in protobuf, because concatenated messages are one message. The tag is that of the
// content, whatever the encoding.
func (g *apiGroup) item(e encoding) (*document, error) {
	return g.documents.tagged("aggregated", e, func(e encoding) (*document, error) {
		group := g.aggregated()
		content, err := json.Marshal(group)
		if err != nil {
			return nil, err
		}
		doc := &document{bytes: content, etag: fmt.Sprintf("%X", sha512.Sum512(content))}
		if e == asProtobuf {
			list := apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{group}}
			doc.bytes, err = list.Marshal()
		}
		return doc, err
	})
}

func (g *apiGroup) aggregated() apidiscoveryv2.APIGroupDiscovery {
	group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, gv := range g.versions {
		if gv.remote != nil {
			group.Versions = append(group.Versions, *gv.remote.Discovery)
			continue
		}
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

// responseKind is the kind of a resource, with group and version. Those of built-in kinds are
// included only if they differ from those of the document, as in Kubernetes.
func (gv *groupVersion) responseKind(r *metav1.APIResource) *metav1.GroupVersionKind {
	kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if gv.custom && kind.Version == "" {
		kind.Group, kind.Version = gv.Group, gv.Version
	}
	return kind
}
