package place

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A Decision is the result of Place for a pod.
type Decision struct {
	Node     string // "" if no node is feasible
	Feasible int    // number of feasible nodes
	Err      error  // why the pod cannot be placed: a rule has failed
	pod      *corev1.Pod
	class    *class
	cluster  *Cluster
	ext      *extState // nil without an Extension
}

// Place decides on which node a pod runs: the one for which others were preempted in favour of the
// pod, if it is feasible, or the best one. The pod is not added to the node: see Assume.
func (c *Cluster) Place(pod *corev1.Pod, profile *Profile) Decision {
	k := c.classOf(pod, profile)
	d := Decision{pod: pod, class: k, cluster: c}
	if d.Err = d.failure(); d.Err != nil {
		return d
	}
	if n := c.nodes[c.Nominated(pod.UID)]; n != nil && n.Object != nil && k.refusal == nil {
		if c.refusalOf(k, n, pod, k.begin()) == nil {
			d.Node, d.Feasible = n.Name, 1
			return d
		}
	}
	choose := c.best
	if len(c.nominees) > 0 {
		choose = func(k *class) (*Node, int) { return c.bestBeside(k, pod) }
	}
	best, feasible := choose(k)
	d.Feasible = feasible
	if best != nil {
		d.Node = best.Name
	}
	return d
}

// failure returns the error of a rule that has failed, nil if none has.
func (d Decision) failure() error {
	if no := d.class.refusal; no != nil {
		return no.Err
	}
	if d.class.failures == 0 {
		return nil
	}
	for _, no := range d.Refusals() {
		if no.Err != nil {
			return no.Err
		}
	}
	return nil
}

// bestBeside returns what best does, where pods that are nominated for nodes count. As they are not
// part of the groups of nodes, it looks at each node.
func (c *Cluster) bestBeside(k *class, pod *corev1.Pod) (best *Node, feasible int) {
	nodes := c.feasible(k, pod)
	if len(nodes) == 0 {
		return nil, 0
	}
	totals := k.totals(eachIsAlone(nodes), nil)
	at := 0
	for i, n := range nodes {
		if totals[i] > totals[at] || totals[i] == totals[at] && n.tie < nodes[at].tie {
			at = i
		}
	}
	return nodes[at], len(nodes)
}

// feasible returns the feasible nodes of a pod of a class, in the order of their slots, until it is
// called again.
func (c *Cluster) feasible(k *class, pod *corev1.Pod) (all []*Node) {
	all = c.found[:0]
	defer func() { c.found = all[:0] }()
	if k.refusal != nil {
		return nil
	}
	wide := k.begin()
	for slot := range k.verdicts {
		v := &k.verdicts[slot]
		if !v.known || v.refusal != nil || v.late != nil {
			continue
		}
		n := c.slots[slot]
		if k.only != nil && !k.only[n.Name] || refusedBy(wide, n) != nil || c.refusedForNominees(k, n, pod) != nil {
			continue
		}
		all = append(all, n)
	}
	return all
}

// begin returns the rules that depend on several nodes, ready for a decision.
func (k *class) begin() (wide []Wide) {
	for i := range k.rules {
		if w := k.rules[i].Wide; w != nil {
			w.Begin()
			wide = append(wide, w)
		}
	}
	return wide
}

func refusedBy(wide []Wide, n *Node) *Refusal {
	for _, w := range wide {
		if no := w.Filter(n); no != nil {
			return no
		}
	}
	return nil
}

// totals returns the sums of the scores of feasible nodes. With note, it is called for each plugin
// that scores, with its scores.
func (k *class) totals(feasible []Alike, note func(plugin int, scores []int64)) []int64 {
	totals := slices.Grow(k.totalled[:0], len(feasible))[:len(feasible)]
	k.totalled = totals
	for i, n := range feasible {
		totals[i] = k.verdicts[n.slot].score
	}
	raw := 0
	for p := range k.rules {
		r := &k.rules[p]
		var scores []int64
		switch {
		case r.Wide != nil:
			scores = r.Wide.Score(feasible)
		case r.Normalize != nil:
			scores = make([]int64, len(feasible))
			for i, n := range feasible {
				scores[i] = k.verdicts[n.slot].raw[raw]
			}
			raw++
			r.Normalize(scores)
		case r.Score != nil && note != nil:
			scores = make([]int64, len(feasible))
			for i, n := range feasible {
				scores[i] = r.Score(n.Node)
			}
			note(p, scores)
			continue // they are in the verdicts
		default:
			continue
		}
		for i := range scores {
			totals[i] += r.weight * scores[i]
		}
		if note != nil && scores != nil {
			note(p, scores)
		}
	}
	return totals
}

// Refusals returns why nodes are not feasible, by their names.
func (d Decision) Refusals() map[string]*Refusal {
	all := map[string]*Refusal{}
	k, c, whole := d.class, d.cluster, d.whole()
	var wide []Wide
	if whole == nil {
		wide = k.begin()
	}
	for _, n := range c.slots {
		if n == nil || n.Object == nil {
			continue
		}
		if whole != nil {
			all[n.Name] = whole
			continue
		}
		if no := d.refusalOf(n, wide); no != nil {
			all[n.Name] = no
		}
	}
	return all
}

// refusalOf returns why a node is not feasible, nil if it is, unless all nodes are refused.
func (d Decision) refusalOf(n *Node, wide []Wide) *Refusal {
	if d.ext.excludes(n) {
		return d.ext.outside
	}
	no := d.cluster.refusalOf(d.class, n, d.pod, wide)
	if no == nil && d.ext != nil {
		no = d.ext.refused[n.Name]
	}
	return no
}

// refusalOf returns why a node is not feasible for a pod of a class, nil if it is. A node must be
// feasible with the pods that are nominated for it, and without.
func (c *Cluster) refusalOf(k *class, n *Node, pod *corev1.Pod, wide []Wide) *Refusal {
	v := &k.verdicts[n.slot]
	if k.only != nil && !k.only[n.Name] {
		return &Refusal{Plugin: k.onlyBy[0], Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", k.onlyBy)}, Final: true}
	}
	if no := c.refusedForNominees(k, n, pod); no != nil {
		return no
	}
	if v.refusal != nil {
		return v.refusal
	}
	if no := refusedBy(wide, n); no != nil {
		return no
	}
	return v.late
}

// Scores returns the scores of the feasible nodes by the names of plugins, with their weights, and
// the total under "".
func (d Decision) Scores() map[string]map[string]int64 {
	all := map[string]map[string]int64{}
	feasible := d.cluster.feasible(d.class, d.pod)
	if len(feasible) == 0 {
		return all
	}
	for _, n := range feasible {
		all[n.Name] = map[string]int64{}
	}
	totals := d.class.totals(eachIsAlone(feasible), func(plugin int, scores []int64) {
		weighted := d.class.profile.Plugins[plugin]
		for i, n := range feasible {
			all[n.Name][weighted.Name()] = weighted.Weight * scores[i]
		}
	})
	for i, n := range feasible {
		all[n.Name][""] = totals[i]
	}
	return all
}

// Message returns the reasons why no node is feasible, in the words of kube-scheduler.
func (d Decision) Message() string {
	if d.cluster.count == 0 {
		return "no nodes available to schedule pods"
	}
	if no := d.whole(); no != nil {
		return fmt.Sprintf("0/%d nodes are available: %s.", d.cluster.count, strings.Join(no.Reasons, ", "))
	}
	counts := map[string]int{}
	for _, no := range d.Refusals() {
		for _, reason := range no.Reasons {
			counts[reason]++
		}
	}
	return countReasons(d.cluster.count, counts)
}

// countReasons returns how many of the nodes are not feasible for which reason, in the words of
// kube-scheduler.
func countReasons(nodes int, counts map[string]int) string {
	text := fmt.Sprintf("0/%d nodes are available:", nodes)
	var parts []string
	for reason, count := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", count, reason))
	}
	sort.Strings(parts)
	if len(parts) > 0 {
		text += " " + strings.Join(parts, ", ") + "."
	}
	return text
}

// Plugins returns the names of the plugins that refuse nodes, sorted.
func (d Decision) Plugins() (names []string) {
	for _, no := range d.Refusals() {
		names = append(names, no.Plugin)
	}
	if d.ext != nil {
		names = append(names, d.ext.limit.By...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
