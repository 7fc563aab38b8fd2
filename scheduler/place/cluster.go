package place

import (
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A Cluster is the input of decisions: nodes, and the pods on them. It belongs to one goroutine.
type Cluster struct {
	nodes map[string]*Node
	slots []*Node            // nodes by their slots; nil where none is
	free  []int              // slots without a node
	count int                // nodes with an object
	hosts map[string][]*Node // nodes with an object, by the label of their hostname

	pods       map[types.UID]*Pod // on nodes, also on those without an object
	images     map[string]int     // how many nodes have an image
	namespaces map[string]labels.Set
	services   map[string]map[string]labels.Set // selectors by namespace and name
	owners     map[ownerKey]labels.Selector
	storage    storage
	devices    devices
	budgets    map[string]*policyv1.PodDisruptionBudget // by namespace/name
	keepers    int                                      // pods with terms of affinity

	nominated map[types.UID]*nomination
	nominees  map[string][]*Pod // nominated pods by their nodes

	changes []int // slots of nodes that have changed, in their order
	first   int   // how many changes were forgotten before
	epoch   int   // incremented when everything that is kept of classes is void
	classes map[string]*class
	uses    int // of classes

	random *rand.Rand
	found  []*Node // room for feasible nodes
	load   loader
}

// NewCluster returns a Cluster without nodes. The seed decides between nodes that are equally good.
func NewCluster(seed uint64) *Cluster {
	return &Cluster{
		nodes: map[string]*Node{}, hosts: map[string][]*Node{}, pods: map[types.UID]*Pod{}, images: map[string]int{}, namespaces: map[string]labels.Set{},
		services: map[string]map[string]labels.Set{}, owners: map[ownerKey]labels.Selector{},
		storage: storage{
			claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{},
			users: map[string]map[*Pod]bool{}, csiNodes: map[string]*storagev1.CSINode{}, drivers: map[string]*storagev1.CSIDriver{},
			capacities:  map[string]*storagev1.CSIStorageCapacity{},
			attachments: map[string]map[string]*storagev1.VolumeAttachment{},
		},
		devices: newDevices(), budgets: map[string]*policyv1.PodDisruptionBudget{}, nominated: map[types.UID]*nomination{}, nominees: map[string][]*Pod{},
		classes: map[string]*class{}, random: rand.New(rand.NewPCG(seed, seed)),
	}
}

// A Node is a node and the pods on it.
type Node struct {
	Name        string
	Object      *corev1.Node // nil if only its pods are known
	Pods        []*Pod
	Allocatable Resources
	Requested   Resources

	assumedCPU, assumedMemory int64 // the requests of its pods, actual or assumed
	ports                     map[port]int
	images                    map[string]int64 // sizes, by all their names
	slot                      int
	tie                       uint64 // smaller is chosen, of equally good nodes
	load                      loader
}

// SetNode adds or replaces a node.
func (c *Cluster) SetNode(object *corev1.Node) {
	n := c.node(object.Name)
	if n.Object == nil {
		c.count++
		c.epoch++ // the number of nodes is part of scores
	}
	c.setHost(n, object)
	n.Allocatable = resourcesOf(object.Status.Allocatable)
	c.setImages(n, object.Status.Images)
	if c.load != nil {
		object = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: object.Name, UID: object.UID, Labels: object.Labels},
			Spec:       corev1.NodeSpec{Unschedulable: object.Spec.Unschedulable, Taints: object.Spec.Taints},
			Status:     corev1.NodeStatus{DeclaredFeatures: object.Status.DeclaredFeatures},
		}
	}
	n.Object = object
	c.changed(n)
}

// RemoveNode removes a node. Its pods stay known until they are removed.
func (c *Cluster) RemoveNode(name string) {
	n := c.nodes[name]
	if n == nil || n.Object == nil {
		return
	}
	c.count--
	c.epoch++
	c.setImages(n, nil)
	c.setHost(n, nil)
	n.Object, n.Allocatable = nil, Resources{}
	c.changed(n)
	c.drop(n)
}

// node returns the entry of a node, which may be new.
func (c *Cluster) node(name string) *Node {
	if n := c.nodes[name]; n != nil {
		return n
	}
	n := &Node{Name: name, ports: map[port]int{}, images: map[string]int64{}, tie: c.random.Uint64(), load: c.load}
	if last := len(c.free) - 1; last >= 0 {
		n.slot, c.free = c.free[last], c.free[:last]
		c.slots[n.slot] = n
	} else {
		n.slot = len(c.slots)
		c.slots = append(c.slots, n)
	}
	c.nodes[name] = n
	return n
}

// drop forgets a node without object and pods.
func (c *Cluster) drop(n *Node) {
	if n.Object != nil || len(n.Pods) > 0 {
		return
	}
	delete(c.nodes, n.Name)
	c.slots[n.slot] = nil
	c.free = append(c.free, n.slot)
}

// maxChanges is the number of changes that are kept for classes that are not used often.
const maxChanges = 1 << 16

// changed notes that a node has changed, and with it all that have the same hostname.
func (c *Cluster) changed(n *Node) {
	if len(c.changes) >= maxChanges {
		half := len(c.changes) / 2
		c.first += half
		c.changes = append(c.changes[:0], c.changes[half:]...)
	}
	c.changes = append(c.changes, n.slot)
	if n.Object == nil {
		return
	}
	if host, ok := n.Object.Labels[corev1.LabelHostname]; ok {
		for _, other := range c.hosts[host] {
			if other != n {
				c.changes = append(c.changes, other.slot)
			}
		}
	}
}

// setHost moves a node, whose object is going to be another one, to the nodes with the same
// hostname. Those with the old one have changed.
func (c *Cluster) setHost(n *Node, object *corev1.Node) {
	old, had := "", false
	if n.Object != nil {
		old, had = n.Object.Labels[corev1.LabelHostname]
	}
	host, has := "", false
	if object != nil {
		host, has = object.Labels[corev1.LabelHostname]
	}
	if had == has && old == host {
		return
	}
	if had {
		c.changed(n)
		if c.hosts[old] = slices.DeleteFunc(c.hosts[old], func(other *Node) bool { return other == n }); len(c.hosts[old]) == 0 {
			delete(c.hosts, old)
		}
	}
	if has {
		c.hosts[host] = append(c.hosts[host], n)
	}
}

// since returns the slots of nodes that have changed after the first n changes; false if some are
// forgotten.
func (c *Cluster) since(n int) (slots []int, known bool) {
	if n < c.first {
		return nil, false
	}
	return c.changes[n-c.first:], true
}

// setImages replaces the images of a node. Scores depend on how many nodes have an image.
func (c *Cluster) setImages(n *Node, list []corev1.ContainerImage) {
	images := map[string]int64{}
	for _, image := range list {
		for _, name := range image.Names {
			images[name] = image.SizeBytes
		}
	}
	same := len(images) == len(n.images)
	for name, size := range images {
		same = same && n.images[name] == size
	}
	if same {
		return
	}
	for name := range n.images {
		if c.images[name]--; c.images[name] == 0 {
			delete(c.images, name)
		}
	}
	for name := range images {
		c.images[name]++
	}
	n.images = images
	c.epoch++
}

// SetPod adds or replaces a pod with a node. The pod is no longer nominated for one.
func (c *Cluster) SetPod(object *corev1.Pod) {
	p := newPod(object)
	if had := c.pods[object.UID]; had != nil {
		p.evicted = had.evicted
	}
	c.RemovePod(object.UID)
	c.Nominate(object, "")
	c.add(p, object.Spec.NodeName)
}

// Assume adds a pod that is going to have a node. The pod is no longer nominated for one.
func (c *Cluster) Assume(object *corev1.Pod, node string) {
	c.RemovePod(object.UID)
	c.Nominate(object, "")
	c.add(newPod(object), node)
}

func (c *Cluster) add(p *Pod, node string) {
	n := c.node(node)
	p.node = n
	if c.load != nil {
		p.Object = nil
	}
	c.pods[p.UID] = p
	n.add(p)
	c.storage.count(p, true)
	if p.affinity != nil {
		c.keepers++
	}
	c.changed(n)
}

// RemovePod removes a pod from its node.
func (c *Cluster) RemovePod(uid types.UID) {
	p := c.pods[uid]
	if p == nil {
		return
	}
	delete(c.pods, uid)
	p.node.remove(p)
	c.storage.count(p, false)
	if p.affinity != nil {
		c.keepers--
	}
	c.changed(p.node)
	c.drop(p.node)
}

// Has reports whether a pod has a node.
func (c *Cluster) Has(uid types.UID) bool { return c.pods[uid] != nil }

// Len returns the number of nodes.
func (c *Cluster) Len() int { return c.count }

// SetNamespace sets the labels of a namespace, on which terms of affinity may depend.
func (c *Cluster) SetNamespace(name string, set map[string]string) {
	if had, ok := c.namespaces[name]; !ok || !labels.Equals(had, set) {
		c.namespaces[name] = set
		c.epoch++
	}
}

// RemoveNamespace forgets a namespace.
func (c *Cluster) RemoveNamespace(name string) {
	delete(c.namespaces, name)
	c.epoch++
}

// An ownerKey identifies a controller of pods.
type ownerKey struct{ kind, namespace, name string }

// SetService sets the selector of a service. Pods of a service are spread by default.
func (c *Cluster) SetService(namespace, name string, selector map[string]string) {
	if c.services[namespace] == nil {
		c.services[namespace] = map[string]labels.Set{}
	}
	c.services[namespace][name] = selector
}

// RemoveService forgets a service.
func (c *Cluster) RemoveService(namespace, name string) { delete(c.services[namespace], name) }

// SetOwner sets the selector of a controller of pods, which are spread by default. The controllers
// that count are ReplicationControllers, ReplicaSets and StatefulSets. A nil selector removes it.
func (c *Cluster) SetOwner(kind, namespace, name string, selector labels.Selector) {
	key := ownerKey{kind, namespace, name}
	if selector == nil {
		delete(c.owners, key)
		return
	}
	c.owners[key] = selector
}

func (n *Node) add(p *Pod) {
	n.Pods = append(n.Pods, p)
	n.count(p, 1)
}

func (n *Node) remove(p *Pod) {
	if i := slices.Index(n.Pods, p); i >= 0 {
		last := len(n.Pods) - 1
		n.Pods[i], n.Pods[last] = n.Pods[last], nil
		n.Pods = n.Pods[:last]
		n.count(p, -1)
	}
}

func (n *Node) count(p *Pod, by int64) {
	n.Requested.add(&p.requests, by)
	n.assumedCPU += by * p.assumedCPU
	n.assumedMemory += by * p.assumedMemory
	for _, one := range p.ports {
		if n.ports[one] += int(by); n.ports[one] == 0 {
			delete(n.ports, one)
		}
	}
}

// taken reports whether a pod on the node has a port, at the same address or at all.
func (n *Node) taken(want port) bool {
	if len(n.ports) == 0 {
		return false
	}
	if want.address != "" {
		return n.ports[want] > 0 || n.ports[port{"", want.protocol, want.number}] > 0
	}
	for have := range n.ports {
		if have.protocol == want.protocol && have.number == want.number {
			return true
		}
	}
	return false
}

// imageName returns the name under which nodes have an image.
func imageName(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		return name + ":latest"
	}
	return name
}
