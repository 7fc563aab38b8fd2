package endpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// catalogue is what discovery tells of a set of definitions. It is made once for
// each set, of the groups of the one before as far as they have not changed.
type catalogue struct {
	set    *resource.Set
	groups []*apiGroup // as clients prefer them
	byName map[string]*apiGroup
	documents
}

// apiGroup is what discovery tells of a group. It does not change, but for the
// documents that it keeps.
type apiGroup struct {
	name        string
	definitions []*resource.Definition // of which it was made
	priority    int
	versions    []*groupVersion // the preferred first
	documents
}

type groupVersion struct {
	schema.GroupVersion
	priority int
	custom   bool
	kinds    []*resource.Definition // by name
}

// catalogue returns the catalogue of the definitions of now.
func (h *Handler) catalogue() *catalogue {
	set := h.store.Registry().Load()
	last := h.discovery.Load()
	if last != nil && last.set == set {
		return last
	}
	c := newCatalogue(set, last)
	h.discovery.Store(c)
	return c
}

// newCatalogue takes over from the last one, if there is any, what is still so.
func newCatalogue(set *resource.Set, last *catalogue) *catalogue {
	byGroup := map[string][]*resource.Definition{}
	for _, d := range set.All() {
		if len(d.Versions) > 0 {
			for group := range d.Groups() {
				byGroup[group] = append(byGroup[group], d)
			}
		}
	}
	c := &catalogue{set: set, byName: make(map[string]*apiGroup, len(byGroup))}
	for name, definitions := range byGroup {
		var g *apiGroup
		if last != nil {
			g = last.byName[name]
		}
		if g == nil || !slices.Equal(g.definitions, definitions) {
			g = newGroup(name, definitions)
		}
		c.byName[name] = g
		c.groups = append(c.groups, g)
	}
	slices.SortFunc(c.groups, func(a, b *apiGroup) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
	})
	return c
}

func newGroup(name string, definitions []*resource.Definition) *apiGroup {
	g := &apiGroup{name: name, definitions: definitions}
	for _, d := range definitions {
		for _, v := range d.Versions {
			named := d.GroupVersion(v)
			if named.Group != name {
				continue
			}
			gv := g.version(v.Name)
			if gv == nil {
				gv = &groupVersion{GroupVersion: named, custom: d.Custom}
				g.versions = append(g.versions, gv)
			}
			p := priorityOf(gv.GroupVersion, d.Custom)
			gv.priority, g.priority = p.version, max(g.priority, p.group)
			gv.kinds = append(gv.kinds, d)
		}
	}
	slices.SortFunc(g.versions, func(a, b *groupVersion) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	for _, gv := range g.versions {
		slices.SortFunc(gv.kinds, func(a, b *resource.Definition) int { return cmp.Compare(a.Plural, b.Plural) })
	}
	return g
}

func (g *apiGroup) version(name string) *groupVersion {
	for _, gv := range g.versions {
		if gv.Version == name {
			return gv
		}
	}
	return nil
}

// Verbs of resources, in the order in which discovery lists them.
var (
	builtInVerbs     = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	singleVerbs      = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	terminatingVerbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	customVerbs      = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	subresourceVerbs = metav1.Verbs{"get", "patch", "update"}
	updateVerbs      = metav1.Verbs{"update"}
	createVerbs      = metav1.Verbs{"create"}
)

// resources lists the resources and subresources of a version.
func (gv *groupVersion) resources() []metav1.APIResource {
	all := []metav1.APIResource{}
	for _, d := range gv.kinds {
		all = append(all, gv.resource(d))
		all = append(all, gv.subresources(d)...)
	}
	return all
}

func (gv *groupVersion) resource(d *resource.Definition) metav1.APIResource {
	verbs := builtInVerbs
	switch {
	case d.Terminating:
		verbs = terminatingVerbs
	case d.Custom:
		verbs = customVerbs
	case d.Action != nil:
		verbs = createVerbs
	case !deletesCollections(d):
		verbs = singleVerbs
	}
	r := metav1.APIResource{
		Name:               d.Plural,
		SingularName:       d.Singular,
		Namespaced:         d.Namespaced,
		Kind:               d.Kind,
		Verbs:              verbs,
		ShortNames:         d.ShortNames,
		Categories:         d.Categories,
		StorageVersionHash: storageVersionHash(d),
	}
	if v := d.Version(gv.GroupVersion); v.Group != "" && v.Warning != "" {
		// Who asks for all of a category would see the same objects twice.
		r.ShortNames, r.Categories = nil, nil
	}
	return r
}

func (gv *groupVersion) subresources(d *resource.Definition) []metav1.APIResource {
	var all []metav1.APIResource
	v := d.Version(gv.GroupVersion)
	for _, sub := range v.Subresources {
		r := metav1.APIResource{Name: d.Plural + "/" + sub.Name, Namespaced: d.Namespaced, Kind: d.Kind, Verbs: subresourceVerbs}
		switch {
		case sub.UpdateOnly:
			r.Verbs = updateVerbs
		case sub.Action != nil:
			r.Kind, r.Verbs = sub.Action.Kind.Kind, createVerbs
			if body := sub.Action.Kind.GroupVersion(); body != gv.GroupVersion {
				r.Group, r.Version = body.Group, body.Version
			}
		}
		all = append(all, r)
	}
	if v.Scale != nil {
		all = append(all, metav1.APIResource{
			Name: d.Plural + "/scale", Namespaced: d.Namespaced,
			Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: subresourceVerbs,
		})
	}
	if !d.Custom { // built-in ones come by name, custom ones status first
		slices.SortFunc(all, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

// storageVersionHash tells clients when objects come to be stored in another version.
func storageVersionHash(d *resource.Definition) string {
	if d.Storage == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(d.Group + "/" + d.Storage.Name + "/" + d.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

type priority struct{ group, version int }

// priorityOf is where a version stands among others: in the order of its group,
// then its own, higher first. The figures are those of kube-apiserver's
// APIServices (cmd/kube-apiserver/app/aggregator.go and
// pkg/controlplane/apiserver/aggregator.go).
func priorityOf(gv schema.GroupVersion, custom bool) priority {
	if custom {
		return priority{1000, 100}
	}
	p := priority{group: groupPriority(gv.Group), version: 1}
	switch {
	case gv.Group == "autoscaling" && gv.Version == "v2":
		p.version = 30
	case gv.Group == "":
	case !strings.Contains(gv.Version, "alpha") && !strings.Contains(gv.Version, "beta"):
		p.version = 15
	case strings.Contains(gv.Version, "beta"):
		p.version = 9
	}
	return p
}

func groupPriority(group string) int {
	switch group {
	case "":
		return 18000
	case "apps":
		return 17800
	case "events.k8s.io":
		return 17750
	case "authentication.k8s.io":
		return 17700
	case "authorization.k8s.io":
		return 17600
	case "autoscaling":
		return 17500
	case "batch":
		return 17400
	case "certificates.k8s.io":
		return 17300
	case "networking.k8s.io":
		return 17200
	case "policy":
		return 17100
	case "rbac.authorization.k8s.io":
		return 17000
	case "storage.k8s.io":
		return 16800
	case "apiextensions.k8s.io", "admissionregistration.k8s.io":
		return 16700
	case "scheduling.k8s.io":
		return 16600
	case "coordination.k8s.io":
		return 16500
	case "node.k8s.io":
		return 16300
	case "discovery.k8s.io", "resource.k8s.io":
		return 16200
	case "flowcontrol.apiserver.k8s.io":
		return 16100
	case "internal.apiserver.k8s.io":
		return 16000
	case "storagemigration.k8s.io":
		return 15800
	}
	return 1000
}
