package node

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/tidwall/btree"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources whose objects have edges.
var (
	pods            = schema.GroupResource{Resource: "pods"}
	volumes         = schema.GroupResource{Resource: "persistentvolumes"}
	attachments     = schema.GroupResource{Group: storagev1.GroupName, Resource: "volumeattachments"}
	resourceSlices  = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}
	podCertificates = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "podcertificaterequests"}
)

// A graph has the relations between objects and nodes at one revision. fold returns it, and it is
// immutable from then on: its trees are copy-on-write, and share unchanged parts with those of the
// previous graph.
type graph struct {
	edges *btree.BTreeG[edge] // ordered by thing, node, source
	// claims are the claims of volumes, and secrets the references of volumes to secrets. Both are
	// edges without a node: which nodes a claim leads to is known from pods.
	claims  *btree.Map[string, thing]
	secrets *btree.BTreeG[volumeSecret] // ordered by secret, volume
	sources *btree.BTreeG[source]       // what each object has contributed, ordered by key

	work work // cost of making it, for tests
}

// work counts the changed objects and edges of one step.
type work struct{ objects, edges int }

// A thing is an object that some nodes have access to. It need not exist.
type thing struct {
	kind            thingKind
	namespace, name string
}

func (t thing) compare(u thing) int {
	return cmp.Or(cmp.Compare(t.kind, u.kind), strings.Compare(t.namespace, u.namespace), strings.Compare(t.name, u.name))
}

type thingKind uint8

const (
	podThing thingKind = iota
	secretThing
	configMapThing
	accountThing
	claimThing
	volumeThing // never in an edge: see claims
	resourceClaimThing
	attachmentThing
	sliceThing
	podCertificateThing
)

// An edge gives a node access to a thing because of a source, such as a pod.
type edge struct {
	thing  thing
	node   string
	source object.Key
}

func (e edge) less(f edge) bool {
	return cmp.Or(e.thing.compare(f.thing), strings.Compare(e.node, f.node), compareKeys(e.source, f.source)) < 0
}

// A volumeSecret is a reference of a volume to a secret.
type volumeSecret struct {
	secret thing
	volume string
}

func (v volumeSecret) less(w volumeSecret) bool {
	return cmp.Or(v.secret.compare(w.secret), strings.Compare(v.volume, w.volume)) < 0
}

// A source is an object with the node and the things that it relates to each other. A volume has a
// claim instead of a node.
type source struct {
	key    object.Key
	node   string
	claim  thing
	things []thing // sorted, without duplicates
}

func (s source) less(t source) bool { return compareKeys(s.key, t.key) < 0 }

func (s source) same(t source) bool {
	return s.node == t.node && s.claim == t.claim && slices.Equal(s.things, t.things)
}

func compareKeys(a, b object.Key) int {
	return cmp.Or(strings.Compare(a.Resource.Resource, b.Resource.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// leads reports whether a node has access to a thing.
func (g *graph) leads(to thing, node string) bool {
	if to.kind == volumeThing {
		claim, ok := g.claims.Get(to.name)
		return ok && g.leads(claim, node)
	}
	found := false
	g.edges.Ascend(edge{thing: to, node: node}, func(e edge) bool {
		found = e.thing == to && e.node == node
		return false
	})
	if found || to.kind != secretThing {
		return found
	}
	g.secrets.Ascend(volumeSecret{secret: to}, func(v volumeSecret) bool {
		if v.secret != to {
			return false
		}
		found = g.leads(thing{kind: volumeThing, name: v.volume}, node)
		return !found
	})
	return found
}

const degree = 16 // a step copies a few nodes of a tree with up to twice as many items

func newGraph() *graph {
	options := btree.Options{NoLocks: true, Degree: degree}
	return &graph{
		edges:   btree.NewBTreeGOptions(edge.less, options),
		claims:  btree.NewMap[string, thing](degree),
		secrets: btree.NewBTreeGOptions(volumeSecret.less, options),
		sources: btree.NewBTreeGOptions(source.less, options),
	}
}

// fold returns the graph with the given changes. Its cost depends on the changed objects and their
// references, and only logarithmically on all others. Objects that cannot be decoded give no
// access.
func fold(last *graph, c *state.Changes) *graph {
	if last == nil {
		last = newGraph()
	}
	g := &graph{edges: last.edges.Copy(), claims: last.claims.Copy(), secrets: last.secrets.Copy(), sources: last.sources.Copy()}
	for key, o := range c.Objects() {
		g.work.objects++
		var next source
		if o != nil {
			next = relations(o)
		}
		next.key = key
		was, _ := g.sources.Get(source{key: key})
		if next.same(was) {
			continue
		}
		g.remove(was)
		g.add(next)
	}
	return g
}

// add adds the edges of a source, none if it has neither a node nor a claim.
func (g *graph) add(s source) {
	switch {
	case s.claim.name != "":
		g.claims.Set(s.key.Name, s.claim)
		for _, secret := range s.things {
			g.secrets.Set(volumeSecret{secret, s.key.Name})
		}
	case s.node != "":
		for _, to := range s.things {
			g.edges.Set(edge{to, s.node, s.key})
		}
	default:
		return
	}
	g.sources.Set(s)
	g.work.edges += len(s.things)
}

func (g *graph) remove(s source) {
	switch {
	case s.claim.name != "":
		g.claims.Delete(s.key.Name)
		for _, secret := range s.things {
			g.secrets.Delete(volumeSecret{secret, s.key.Name})
		}
	case s.node != "":
		for _, to := range s.things {
			g.edges.Delete(edge{to, s.node, s.key})
		}
	default:
		return
	}
	g.sources.Delete(s)
	g.work.edges += len(s.things)
}

// relations returns the source that an object is. Its key is not set.
func relations(o *object.Object) source {
	own := thing{namespace: o.Key.Namespace, name: o.Key.Name}
	switch o.Key.Resource {
	case pods:
		if pod := decode[corev1.Pod](o); pod != nil && pod.Spec.NodeName != "" {
			return source{node: pod.Spec.NodeName, things: podThings(pod)}
		}
	case volumes:
		if volume := decode[corev1.PersistentVolume](o); volume != nil && volume.Spec.ClaimRef != nil {
			ref := volume.Spec.ClaimRef
			return source{claim: thing{claimThing, ref.Namespace, ref.Name}, things: volumeSecrets(volume)}
		}
	case attachments:
		if a := decode[storagev1.VolumeAttachment](o); a != nil {
			own.kind = attachmentThing
			return source{node: a.Spec.NodeName, things: []thing{own}}
		}
	case resourceSlices:
		if s := decode[resourcev1.ResourceSlice](o); s != nil && s.Spec.NodeName != nil {
			own.kind = sliceThing
			return source{node: *s.Spec.NodeName, things: []thing{own}}
		}
	case podCertificates:
		if r := decode[certificatesv1.PodCertificateRequest](o); r != nil {
			own.kind = podCertificateThing
			return source{node: string(r.Spec.NodeName), things: []thing{own}}
		}
	}
	return source{}
}

// decode returns an object as a Go struct; nil if it is invalid.
func decode[T any](o *object.Object) *T {
	into := new(T)
	if typed.FromJSON(o.Raw, into) != nil {
		return nil
	}
	return into
}
