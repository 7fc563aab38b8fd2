package place

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// maxVerdicts is the number of verdicts that all classes keep, about 100 bytes each. The classes
// that were used last keep theirs.
const maxVerdicts = 1 << 20

// A class is a set of pods that rules do not distinguish, with the verdicts on all nodes for them.
type class struct {
	pod     *Pod // one of them
	profile *Profile
	rules   []ruled
	refusal *Refusal        // of all nodes
	only    map[string]bool // names of the nodes that are considered; nil is all
	onlyBy  []string        // the plugins that restrict them

	epoch    int
	at       int       // how many changes it has followed
	verdicts []verdict // by slot
	groups   []*group  // of the feasible nodes, none of them empty
	byKey    map[string]*group
	used     int
	dynamic  bool // its pods need devices
	claims   int  // changes of claims and devices before it, if it is dynamic
	failures int  // nodes on which a rule has failed

	totalled []int64 // room for totals, for nodes to compare, and for a key
	alike    []Alike
	room     []byte
}

// A ruled is a rule with the weight of its scores.
type ruled struct {
	Rule
	weight int64
}

// A verdict is the result of the rules that depend only on the node itself.
type verdict struct {
	known   bool     // there is a node
	refusal *Refusal // of rules before those that are wide
	late    *Refusal // of rules after them
	score   int64    // of rules without Normalize, with their weights
	raw     []int64  // of rules with Normalize

	group *group // nil if the node is not feasible
	index int32  // in the heap of the group
	rank  int64  // the score when the node joined the group
	tie   uint64 // of the node
}

// classOf returns the class of a pod, with all changes of nodes.
func (c *Cluster) classOf(object *corev1.Pod, profile *Profile) *class {
	c.uses++
	key := fmt.Sprintf("%p %s", profile, c.keyOf(object))
	k := c.classes[key]
	if k == nil {
		k = &class{pod: newPod(object), profile: profile, epoch: -1}
		if c.NeedsDevices(object) {
			c.forgetClaims()
			k.dynamic, k.claims = true, c.devices.changes
		}
		c.classes[key] = k
		c.forgetClasses(k)
	}
	k.used = c.uses
	c.follow(k)
	return k
}

// keyOf returns the parts of a pod that rules depend on.
func (c *Cluster) keyOf(p *corev1.Pod) string {
	meta := metav1.ObjectMeta{Namespace: p.Namespace, Labels: p.Labels}
	s := &p.Spec
	spec := corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		TopologySpreadConstraints: s.TopologySpreadConstraints, Overhead: s.Overhead, Resources: s.Resources,
		InitContainers: containersOf(s.InitContainers), Containers: containersOf(s.Containers),
	}
	for i := range s.Volumes {
		if s.Volumes[i].Image != nil || isInline(s.Volumes[i]) {
			spec.Volumes = append(spec.Volumes, corev1.Volume{VolumeSource: s.Volumes[i].VolumeSource})
		}
	}
	var key strings.Builder
	for _, part := range []interface{ Marshal() ([]byte, error) }{&meta, &spec} {
		data, err := part.Marshal()
		if err != nil {
			return string(p.UID) // a class of its own
		}
		fmt.Fprintf(&key, "%d ", len(data))
		key.Write(data)
	}
	key.WriteString(c.storageKey(p))
	key.WriteString(c.claimsKey(p))
	key.WriteString(featuresKey(p))
	if len(s.TopologySpreadConstraints) == 0 {
		key.WriteString(c.selectorOf(p).String())
	}
	return key.String()
}

func containersOf(all []corev1.Container) []corev1.Container {
	key := make([]corev1.Container, len(all))
	for i := range all {
		key[i] = corev1.Container{Image: all[i].Image, Resources: all[i].Resources, Ports: all[i].Ports, RestartPolicy: all[i].RestartPolicy}
	}
	return key
}

// forgetClasses drops the least recently used classes, except one, while there are too many
// verdicts.
func (c *Cluster) forgetClasses(but *class) {
	for len(c.classes)*max(len(c.slots), 1) > maxVerdicts {
		oldest := ""
		for key, k := range c.classes {
			if k != but && (oldest == "" || k.used < c.classes[oldest].used) {
				oldest = key
			}
		}
		if oldest == "" {
			return
		}
		delete(c.classes, oldest)
	}
}

// forgetClaims drops the classes of pods that need devices which a change of claims or devices has
// made useless.
func (c *Cluster) forgetClaims() {
	for key, k := range c.classes {
		if k.dynamic && k.claims != c.devices.changes {
			delete(c.classes, key)
		}
	}
}

// follow computes the verdicts again that may have changed since the class was used last.
func (c *Cluster) follow(k *class) {
	changed, known := c.since(k.at)
	k.at = c.first + len(c.changes)
	all := !known || len(changed) >= len(c.slots)
	if k.epoch != c.epoch {
		k.epoch, all = c.epoch, true
		k.compile(c)
	}
	if k.refusal != nil {
		return
	}
	if all {
		for slot, n := range c.slots {
			k.judge(n, slot)
		}
	} else {
		for _, slot := range changed {
			k.judge(c.slots[slot], slot)
		}
	}
	if k.settle() || all {
		for slot := range k.verdicts {
			k.regroup(c, slot)
		}
		return
	}
	for _, slot := range changed {
		k.regroup(c, slot)
	}
}

// settle reports whether a rule distinguishes more nodes than it did.
func (k *class) settle() (more bool) {
	for i := range k.rules {
		if w := k.rules[i].Wide; w != nil && w.Settle() {
			more = true
		}
	}
	return more
}

// compile compiles the rules for the class.
func (k *class) compile(c *Cluster) {
	k.rules, k.refusal, k.only, k.onlyBy, k.verdicts, k.groups, k.byKey, k.failures = nil, nil, nil, nil, nil, nil, map[string]*group{}, 0
	for _, plugin := range k.profile.Plugins {
		rule, refusal := plugin.Compile(c, k.pod)
		if refusal != nil {
			k.refusal = refusal
			return
		}
		if rule.Only != nil {
			k.limit(plugin.Name(), rule.Only)
		}
		rule.omit(plugin.Without)
		k.rules = append(k.rules, ruled{rule, plugin.Weight})
	}
}

// limit keeps the nodes that all plugins that name nodes agree on.
func (k *class) limit(plugin string, names map[string]bool) {
	k.onlyBy = append(k.onlyBy, plugin)
	if k.only == nil {
		k.only = names
		return
	}
	both := map[string]bool{}
	for name := range names {
		if k.only[name] {
			both[name] = true
		}
	}
	k.only = both
}

// judge computes the verdict on a node.
func (k *class) judge(n *Node, slot int) {
	for len(k.verdicts) <= slot {
		k.verdicts = append(k.verdicts, verdict{})
	}
	v := &k.verdicts[slot]
	if v.failed() {
		k.failures--
	}
	raw := v.raw[:0]
	v.known, v.refusal, v.late, v.score = false, nil, nil, 0
	gone := n == nil || n.Object == nil
	wide := false
	for i := range k.rules {
		r := &k.rules[i]
		if r.Wide != nil {
			wide = true
			if n != nil {
				r.Wide.Follow(n)
			} else {
				r.Wide.Follow(&Node{slot: slot})
			}
		}
		if gone {
			continue
		}
		if r.Filter != nil && v.refusal == nil && v.late == nil {
			if no := r.Filter(n); no != nil && wide {
				v.late = no
			} else {
				v.refusal = no
			}
		}
		switch {
		case r.Score == nil:
		case r.Normalize == nil:
			v.score += r.weight * r.Score(n)
		default:
			raw = append(raw, r.Score(n))
		}
	}
	v.known, v.raw = !gone, raw
	if v.failed() {
		k.failures++
	}
}

// failed reports whether a rule has failed.
func (v *verdict) failed() bool {
	return v.refusal != nil && v.refusal.Err != nil || v.late != nil && v.late.Err != nil
}

// selectorOf returns the selector of the pods that are spread with a pod without topology spread
// constraints: those of its services and of its controller.
func (c *Cluster) selectorOf(p *corev1.Pod) labels.Selector {
	set := labels.Set{}
	for _, selector := range c.services[p.Namespace] {
		if len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(p.Labels)) {
			set = labels.Merge(set, selector)
		}
	}
	selector := set.AsSelector()
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return selector
	}
	if own := c.owners[ownerKey{owner.Kind, p.Namespace, owner.Name}]; own != nil {
		if r, selectable := own.Requirements(); selectable {
			selector = selector.Add(r...)
		}
	}
	return selector
}
