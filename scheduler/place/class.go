package place

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// maxVerdicts is the number of verdicts that all classes keep, about 100 bytes each. The classes that
// were used last keep theirs.
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
	raw      int       // scores in a verdict that are normalised
	nonzero  []int     // how many verdicts have such a score that is not zero, by rule
	used     int

	totalled []int64 // room for totals
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
}

// classOf returns the class of a pod, with all changes of nodes.
func (c *Cluster) classOf(object *corev1.Pod, profile *Profile) *class {
	c.uses++
	key := fmt.Sprintf("%p %s", profile, c.keyOf(object))
	k := c.classes[key]
	if k == nil {
		k = &class{pod: newPod(object), profile: profile, epoch: -1}
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

// forgetClasses drops the least recently used classes, except one, while there are too many verdicts.
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

// follow computes the verdicts again that may have changed since the class was used last.
func (c *Cluster) follow(k *class) {
	changed, known := c.since(k.at)
	k.at = c.first + len(c.changes)
	if k.epoch != c.epoch {
		k.epoch = c.epoch
		k.compile(c)
	} else if known && len(changed) < len(c.slots) {
		for _, slot := range changed {
			k.judge(c.slots[slot], slot)
		}
		return
	}
	for slot, n := range c.slots {
		k.judge(n, slot)
	}
}

// compile compiles the rules for the class.
func (k *class) compile(c *Cluster) {
	k.rules, k.refusal, k.only, k.onlyBy, k.verdicts, k.raw, k.nonzero = nil, nil, nil, nil, nil, 0, nil
	for _, plugin := range k.profile.Plugins {
		rule, refusal := plugin.Compile(c, k.pod)
		if refusal != nil {
			k.refusal = refusal
			return
		}
		if rule.Only != nil {
			k.limit(plugin.Name(), rule.Only)
		}
		if rule.Normalize != nil {
			k.raw++
			k.nonzero = append(k.nonzero, 0)
		}
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
	if k.refusal != nil {
		return
	}
	for len(k.verdicts) <= slot {
		k.verdicts = append(k.verdicts, verdict{})
	}
	v := &k.verdicts[slot]
	for i, score := range v.raw {
		if score != 0 {
			k.nonzero[i]--
		}
	}
	raw := v.raw[:0]
	*v = verdict{}
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
	for i, score := range raw {
		if score != 0 {
			k.nonzero[i]++
		}
	}
}

// selectorOf returns the selector of the pods that are spread with a pod without topology spread constraints:
// those of its services and of its controller.
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
