package endpoint

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// discoverRoot serves /api and /apis: the list of groups, or the aggregated document.
func (c *call) discoverRoot() {
	core := c.info.Path == "/api" || c.info.Path == "/api/"
	if core && c.r.Method != http.MethodGet {
		c.fail(methodNotAllowed())
		return
	}
	if core {
		if err := routable(c.r, mediaTypes[:]); err != nil {
			c.fail(err)
			return
		}
	}
	if m, ok := parseAccept(c.r.Header.Get("Accept"), aggregatedMedia()); ok && !c.h.opts.GroupByGroup {
		c.answerAggregated(m, core)
		return
	}
	if core {
		c.answerDocument(&c.h.catalogue().documents, "/api", func() (any, string, string) {
			return &metav1.APIVersions{
				TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
				Versions: []string{"v1"},
				ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
					{ClientCIDR: "0.0.0.0/0", ServerAddress: c.h.opts.Address},
				},
			}, "", "APIVersions"
		})
		return
	}
	now := c.h.catalogue()
	c.answerDocument(&now.documents, "/apis", func() (any, string, string) {
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
		for _, g := range now.groups {
			if g.name != "" {
				list.Groups = append(list.Groups, g.document())
			}
		}
		return list, "v1", "APIGroupList"
	})
}

func (g *apiGroup) document() metav1.APIGroup {
	group := metav1.APIGroup{Name: g.name}
	for _, gv := range g.versions {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{
			GroupVersion: gv.String(), Version: gv.Version,
		})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// discover serves /api/v1, /apis/GROUP and /apis/GROUP/VERSION.
func (c *call) discover() {
	parts := splitPath(c.info.Path)
	set := c.h.catalogue()
	var g *apiGroup
	var gv *groupVersion
	switch {
	case parts[0] == "api":
		if g = set.byName[""]; g != nil && len(parts) == 2 {
			gv = g.version(parts[1])
		}
	default:
		if g = set.byName[parts[1]]; g != nil && len(parts) == 3 {
			gv = g.version(parts[2])
		}
	}
	switch {
	case gv != nil:
		c.discoverVersion(g, gv)
	case g != nil && parts[0] == "apis" && len(parts) == 2:
		c.answerDocument(&g.documents, "/apis/"+g.name, func() (any, string, string) {
			group := g.document()
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return &group, "v1", "APIGroup"
		})
	case c.routed(set.set):
		c.fail(noSuchPath())
	default:
		c.notFound()
	}
}

func (c *call) discoverVersion(g *apiGroup, gv *groupVersion) {
	if !gv.custom {
		if c.r.Method != http.MethodGet {
			c.fail(methodNotAllowed())
			return
		}
		if err := routable(c.r, mediaTypes[:]); err != nil {
			c.fail(err)
			return
		}
	}
	apiVersion := "v1"
	if gv.Group == "" {
		apiVersion = "" // as it was in Kubernetes 1.1
	}
	c.answerDocument(&g.documents, "/apis/"+gv.String(), func() (any, string, string) {
		return &metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: apiVersion},
			GroupVersion: gv.String(),
			APIResources: gv.resources(),
		}, apiVersion, "APIResourceList"
	})
}

// answerDocument responds with a discovery document, which is made on first use.
func (c *call) answerDocument(kept *documents, name string, make func() (v any, apiVersion, kind string)) {
	m, err := negotiate(c.r, plainMedia())
	if err != nil {
		c.fail(err)
		return
	}
	doc, err := kept.get(name, m.encoding, func(e encoding) ([]byte, error) {
		v, apiVersion, kind := make()
		return appendTyped(nil, e, v, apiVersion, kind)
	})
	if err != nil {
		c.fail(err)
		return
	}
	out := c.output(http.StatusOK, m)
	out.buf = append(out.buf, doc.bytes...)
	out.end()
}

// index lists the paths that the server serves.
func (c *call) index() { c.rawJSON(http.StatusOK, metav1.RootPaths{Paths: c.h.paths()}) }

// paths returns the paths that the server serves, in order.
func (h *Handler) paths() []string {
	paths := []string{"/api", "/apis", "/apis/", "/metrics", "/version"}
	for path := range h.pages {
		paths = append(paths, path)
	}
	if h.opts.OpenAPI != nil {
		paths = append(paths, "/openapi/v2", "/openapi/v3", "/openapi/v3/")
	}
	for path := range h.opts.Documents {
		paths = append(paths, path)
	}
	for _, path := range healthPaths {
		paths = append(paths, "/"+path)
		for _, check := range h.checks(path) {
			paths = append(paths, "/"+path+"/"+check.Name)
		}
	}
	for _, g := range h.catalogue().groups {
		prefix := "/apis/" + g.name
		if g.name == "" {
			prefix = "/api"
		}
		paths = append(paths, prefix)
		for _, gv := range g.versions {
			paths = append(paths, prefix+"/"+gv.Version)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// answerVersion serves /version.
func (c *call) answerVersion() {
	if c.r.Method != http.MethodGet {
		c.fail(methodNotAllowed())
		return
	}
	if err := routable(c.r, []string{contentTypeJSON}); err != nil {
		c.fail(err)
		return
	}
	c.rawJSON(http.StatusOK, c.h.opts.Version)
}
