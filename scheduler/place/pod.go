package place

import (
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Pod is a pod that has or gets a node. As many have one, it has only what rules read.
type Pod struct {
	// Object is nil if the pod has a node and its cluster can load it: see Load.
	Object *corev1.Pod

	types.NamespacedName
	UID types.UID

	node                      *Node
	labels                    labelSet
	requests                  Resources
	assumedCPU, assumedMemory int64
	created                   int64 // in seconds
	started                   int64 // in nanoseconds; of a pod that has not started, more than of any other
	priority                  int32

	deleting  bool
	preempted bool // terminates because it was preempted
	evicted   bool // see Evict

	*extras
}

// extras are what few pods have.
type extras struct {
	ports    []port
	affinity *affinity       // nil without terms
	volumes  []corev1.Volume // those that matter on nodes
}

// noExtras is shared by all pods without any.
var noExtras = &extras{}

// A port is a port of a node that a pod takes. An empty address is all addresses.
type port struct {
	address  string
	protocol corev1.Protocol
	number   int32
}

func newPod(p *corev1.Pod) *Pod {
	onNode := p.Spec.NodeName != ""
	list := requestsOf(p, onNode)
	known := assumedOf(p, onNode, list)
	more := noExtras
	if has := (extras{portsOf(p), affinityOf(p), volumesOf(p)}); has.ports != nil || has.affinity != nil || has.volumes != nil {
		more = &has
	}
	return &Pod{
		Object:         p,
		NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, UID: p.UID,
		labels: newLabelSet(p.Labels), priority: Priority(p), deleting: p.DeletionTimestamp != nil, preempted: isPreempted(p),
		created: p.CreationTimestamp.Unix(), started: started(p),
		requests: resourcesOf(list), assumedCPU: known.Cpu().MilliValue(), assumedMemory: known.Memory().Value(),
		extras: more,
	}
}

// A loader returns the object of a pod, nil if it is gone.
type loader func(types.NamespacedName) *corev1.Pod

// LoadPods lets a cluster that is still empty keep little: it loads the objects of pods on nodes
// when they are needed, and the objects of nodes have only what rules read. load returns nil for a
// pod that is gone.
func (c *Cluster) LoadPods(load func(types.NamespacedName) *corev1.Pod) { c.load = load }

// Load returns the object of a pod, nil if it is gone.
func (p *Pod) Load() *corev1.Pod {
	if p.Object != nil {
		return p.Object
	}
	if o := p.node.load(p.NamespacedName); o != nil && o.UID == p.UID {
		return o
	}
	return nil
}

// A labelSet is the labels of a pod, which pods with the same labels share. It implements
// labels.Labels.
type labelSet struct{ text unique.Handle[string] } // each key and value ends with a zero byte

func newLabelSet(set map[string]string) labelSet {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(set)) {
		for _, part := range [...]string{key, set[key]} {
			text.WriteString(part)
			text.WriteByte(0)
		}
	}
	return labelSet{unique.Make(text.String())}
}

func (l labelSet) empty() bool { return l.text.Value() == "" }

// Lookup implements labels.Labels.
func (l labelSet) Lookup(label string) (value string, exists bool) {
	for rest := l.text.Value(); rest != ""; {
		var key string
		key, rest, _ = strings.Cut(rest, "\x00")
		value, rest, _ = strings.Cut(rest, "\x00")
		if key == label {
			return value, true
		}
	}
	return "", false
}

// Has implements labels.Labels.
func (l labelSet) Has(label string) bool {
	_, has := l.Lookup(label)
	return has
}

// Get implements labels.Labels.
func (l labelSet) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}

// portsOf returns the ports of its node that a pod takes.
func portsOf(p *corev1.Pod) (all []port) {
	add := func(containers []corev1.Container, runs func(*corev1.Container) bool) {
		for i := range containers {
			for _, cp := range containers[i].Ports {
				if cp.HostPort > 0 && runs(&containers[i]) {
					one := port{cp.HostIP, cp.Protocol, cp.HostPort}
					if one.address == "0.0.0.0" {
						one.address = ""
					}
					if one.protocol == "" {
						one.protocol = corev1.ProtocolTCP
					}
					all = append(all, one)
				}
			}
		}
	}
	add(p.Spec.InitContainers, func(c *corev1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
	add(p.Spec.Containers, func(*corev1.Container) bool { return true })
	return all
}

// volumesOf returns the volumes of a pod that matter for other pods on its node.
func volumesOf(p *corev1.Pod) (all []corev1.Volume) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil || isInline(v) {
			all = append(all, v)
		}
	}
	return all
}

// withVolumes returns an object with the identity and the volumes of a pod.
func (p *Pod) withVolumes() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Spec:       corev1.PodSpec{Volumes: p.volumes},
	}
}
