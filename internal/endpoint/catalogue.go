package endpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/aggregate"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// catalogue is the content of discovery for a set of definitions. It is made once for each set, and
// shares the groups that have not changed with the catalogue before it.
type catalogue struct {
	set    *resource.Set
	others *aggregate.Set
	groups []*apiGroup // as clients prefer them
	byName map[string]*apiGroup
	documents
}

// apiGroup is the content of discovery for a group. It is immutable except for the documents that
// it caches.
type apiGroup struct {
	name        string
	definitions []*resource.Definition // that it was made of
	remotes     []*aggregate.Remote    // likewise: the versions that other servers serve
	priority    int
	versions    []*groupVersion // the preferred first
	documents
}

type groupVersion struct {
	schema.GroupVersion
	priority int
	custom   bool
	kinds    []*resource.Definition // by name
	remote   *aggregate.Remote      // if an extension server serves it; kinds is empty then
}

// catalogue returns the catalogue of the current definitions.
func (h *Handler) catalogue() *catalogue {
	set, others := h.store.Registry().Load(), h.opts.Aggregated.Load()
	last := h.discovery.Load()
	if last != nil && last.set == set && last.others == others {
		return last
	}
	c := newCatalogue(set, others, last)
	h.discovery.Store(c)
	return c
}

// newCatalogue returns a catalogue that shares unchanged groups with the last one, which may be
// nil.
func newCatalogue(set *resource.Set, others *aggregate.Set, last *catalogue) *catalogue {
	byGroup := map[string][]*resource.Definition{}
	for _, d := range set.All() {
		if len(d.Versions) > 0 {
			for group := range d.Groups() {
				byGroup[group] = append(byGroup[group], d)
			}
		}
	}
	remotes := map[string][]*aggregate.Remote{}
	for gv, m := range others.All() {
		remotes[gv.Group] = append(remotes[gv.Group], m)
		if _, known := byGroup[gv.Group]; !known {
			byGroup[gv.Group] = nil
		}
	}
	c := &catalogue{set: set, others: others, byName: make(map[string]*apiGroup, len(byGroup))}
	for name, definitions := range byGroup {
		var g *apiGroup
		if last != nil {
			g = last.byName[name]
		}
		slices.SortFunc(remotes[name], func(a, b *aggregate.Remote) int { return cmp.Compare(a.Version, b.Version) })
		if g == nil || !slices.Equal(g.definitions, definitions) || !slices.Equal(g.remotes, remotes[name]) {
			g = newGroup(name, definitions, remotes[name])
		}
		c.byName[name] = g
		c.groups = append(c.groups, g)
	}
	slices.SortFunc(c.groups, func(a, b *apiGroup) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
	})
	return c
}

func newGroup(name string, definitions []*resource.Definition, remotes []*aggregate.Remote) *apiGroup {
	g := &apiGroup{name: name, definitions: definitions, remotes: remotes}
	for _, m := range remotes {
		g.versions = append(g.versions, &groupVersion{GroupVersion: m.GroupVersion, priority: m.VersionPriority, remote: m})
		g.priority = max(g.priority, m.GroupPriority)
	}
	for _, d := range definitions {
		for _, v := range d.Versions {
			named := d.GroupVersion(v)
			if named.Group != name {
				continue
			}
			gv := g.version(v.Name)
			if gv != nil && gv.remote != nil {
				continue // an APIService takes precedence
			}
			if gv == nil {
				gv = &groupVersion{GroupVersion: named, custom: d.Custom}
				g.versions = append(g.versions, gv)
			}
			group, version := aggregate.PriorityOf(gv.GroupVersion, d.Custom)
			gv.priority, g.priority = version, max(g.priority, group)
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
		// A client that lists a category would get the same objects twice.
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
	for i := range v.Connections {
		to := &v.Connections[i]
		all = append(all, metav1.APIResource{
			Name: d.Plural + "/" + to.Name, Namespaced: d.Namespaced, Kind: cmp.Or(to.Shown, to.Kind.Kind), Verbs: connectionVerbs(to),
		})
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

// storageVersionHash changes when objects are stored in another version.
func storageVersionHash(d *resource.Definition) string {
	if d.Storage == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(d.Group + "/" + d.Storage.Name + "/" + d.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
