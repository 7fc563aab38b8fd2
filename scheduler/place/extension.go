package place

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// An Extension takes part in the decision about one pod, after the plugins of its profile. Unlike
// theirs, its results are not kept for other decisions. Its methods are called by the goroutine of
// the Cluster, and must not change nodes.
type Extension interface {
	// Begin is called first, with all nodes. It may refuse all of them, or limit them.
	Begin(all []*Node) (Limit, *Refusal)
	// Filter refuses a node that no plugin has refused. For preemption, it is called with copies of
	// nodes that have other pods.
	Filter(*Node) *Refusal
	// Narrow is called with the feasible nodes, at least one. It returns those that remain, in their
	// order, and why the others do not.
	Narrow(feasible []*Node) (kept []*Node, others map[string]*Refusal, err error)
	// Score adds to the totals of the feasible nodes, at least two.
	Score(feasible []*Node, totals []int64) error
	// Victims returns the candidates of a preemption that remain, perhaps with other victims.
	Victims([]Candidate) ([]Candidate, error)
}

// A Limit is the nodes that an Extension considers.
type Limit struct {
	Nodes map[string]bool // by their names; nil is all
	By    []string        // names of plugins
}

// extState is what an Extension has decided about a pod.
type extState struct {
	Extension
	whole   *Refusal            // of all nodes
	limit   Limit               // with that of the plugins of the profile
	outside *Refusal            // of the nodes outside of the limit
	refused map[string]*Refusal // by the names of nodes
}

// PlaceWith is Place with an Extension.
func (c *Cluster) PlaceWith(pod *corev1.Pod, profile *Profile, by Extension) Decision {
	k := c.classOf(pod, profile)
	e := &extState{Extension: by, refused: map[string]*Refusal{}}
	d := Decision{pod: pod, class: k, cluster: c, ext: e}
	if d.Err = d.failure(); d.Err != nil || k.refusal != nil || c.count == 0 {
		return d
	}
	if d.Err = d.begin(); d.Err != nil || e.whole != nil {
		return d
	}
	if n := c.nodes[c.Nominated(pod.UID)]; n != nil && n.Object != nil && d.refusal(n) == nil && d.extraRefusal(n) == nil {
		if kept, _, err := e.Narrow([]*Node{n}); err == nil && len(kept) > 0 {
			d.Node, d.Feasible = n.Name, 1
			return d
		}
	}
	var nodes []*Node
	for _, n := range c.feasible(k, pod) {
		no := d.extraRefusal(n)
		switch {
		case no == nil:
			nodes = append(nodes, n)
		case no.Err != nil:
			d.Err = no.Err
			return d
		default:
			e.refused[n.Name] = no
		}
	}
	if len(nodes) > 0 {
		if nodes, d.Err = d.narrow(nodes); d.Err != nil {
			return d
		}
	}
	if d.Feasible = len(nodes); len(nodes) > 0 {
		d.Node, d.Err = d.bestOf(nodes)
	}
	return d
}

// begin calls Begin.
func (d Decision) begin() error {
	e, k := d.ext, d.class
	limit, whole := e.Begin(d.cluster.Nodes())
	if whole != nil {
		e.whole = whole
		return whole.Err
	}
	if limit.Nodes == nil {
		return nil
	}
	if k.only != nil {
		both := map[string]bool{}
		for name := range limit.Nodes {
			if k.only[name] {
				both[name] = true
			}
		}
		limit = Limit{both, slices.Concat(k.onlyBy, limit.By)}
	}
	slices.Sort(limit.By)
	e.limit = limit
	e.outside = &Refusal{Plugin: limit.By[0], Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", limit.By)}, Final: true}
	switch {
	case len(limit.Nodes) > 0:
	case len(limit.By) == 1:
		e.whole = &Refusal{Plugin: limit.By[0], Reasons: []string{"node(s) didn't satisfy plugin " + limit.By[0]}, Final: true}
	default:
		e.whole = &Refusal{Plugin: limit.By[0], Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", limit.By)}, Final: true}
	}
	return nil
}

// extraRefusal returns why the Extension refuses a node, with the pods that are nominated for the
// node, or without.
func (d Decision) extraRefusal(n *Node) *Refusal {
	if d.ext.excludes(n) {
		return d.ext.outside
	}
	if with := d.cluster.withNominees(n, d.pod); with != nil {
		if no := d.ext.Filter(with); no != nil {
			return no
		}
	}
	return d.ext.Filter(n)
}

// excludes reports whether a node is outside of the limit.
func (e *extState) excludes(n *Node) bool {
	return e != nil && e.limit.Nodes != nil && !e.limit.Nodes[n.Name]
}

// narrow calls Narrow. Nodes that it drops without a reason are refused without one.
func (d Decision) narrow(nodes []*Node) ([]*Node, error) {
	kept, others, err := d.ext.Narrow(nodes)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if no := others[n.Name]; no != nil && !slices.Contains(kept, n) {
			d.ext.refused[n.Name] = no
		}
	}
	return kept, nil
}

// bestOf returns the name of the node with the highest score.
func (d Decision) bestOf(nodes []*Node) (string, error) {
	if len(nodes) == 1 {
		return nodes[0].Name, nil
	}
	totals := d.class.totals(eachIsAlone(nodes), nil)
	if err := d.ext.Score(nodes, totals); err != nil {
		return "", err
	}
	at := 0
	for i, n := range nodes {
		if totals[i] > totals[at] || totals[i] == totals[at] && n.tie < nodes[at].tie {
			at = i
		}
	}
	return nodes[at].Name, nil
}

// whole returns why no node is feasible, whatever the nodes are; nil if each has its own reason.
func (d Decision) whole() *Refusal {
	if d.class.refusal == nil && d.ext != nil {
		return d.ext.whole
	}
	return d.class.refusal
}

// Nodes returns the nodes with an object, in the order of their slots.
func (c *Cluster) Nodes() []*Node {
	all := make([]*Node, 0, c.count)
	for _, n := range c.slots {
		if n != nil && n.Object != nil {
			all = append(all, n)
		}
	}
	return all
}

// Node returns a node, nil if there is none.
func (c *Cluster) Node(name string) *Node {
	if n := c.nodes[name]; n != nil && n.Object != nil {
		return n
	}
	return nil
}

// RefreshNode replaces the object of a node by one that is the same for all plugins. Extensions may
// distinguish them.
func (c *Cluster) RefreshNode(object *corev1.Node) {
	if n := c.Node(object.Name); n != nil && c.load == nil {
		n.Object = object
	}
}

// NewNode returns a node with pods that belongs to no Cluster.
func NewNode(object *corev1.Node, pods ...*corev1.Pod) *Node {
	n := &Node{Name: object.Name, Object: object, Allocatable: resourcesOf(object.Status.Allocatable), ports: map[port]int{}, images: map[string]int64{}}
	for _, p := range pods {
		n.add(newPod(p))
	}
	return n
}
