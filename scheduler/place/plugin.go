package place

import (
	"slices"
	"time"
)

// MaxScore is the highest score that a plugin gives a node, before its weight.
const MaxScore = 100

// A Plugin is a rule about where pods run. Its methods are called by one goroutine at a time.
type Plugin interface {
	// Name is the name in KubeSchedulerConfiguration.
	Name() string
	// Compile returns the rule of the plugin for the class of p. A Refusal means that no node is
	// feasible.
	Compile(c *Cluster, p *Pod) (Rule, *Refusal)
}

// A Rule is a Plugin compiled for a class of pods. A field that is nil has nothing to say.
type Rule struct {
	// Filter refuses a node. It depends on nothing but the node and the pods on it.
	Filter func(*Node) *Refusal
	// Score returns how good a node is, from 0 to MaxScore, or, with Normalize, any number. It depends
	// on nothing but the node, the pods on it, and on how many nodes have an image.
	Score func(*Node) int64
	// Normalize changes the scores of all feasible nodes to numbers from 0 to MaxScore. It does not
	// depend on how many nodes have a score.
	Normalize func(scores []int64)
	// Only are the names of the nodes that are considered; nil means all.
	Only map[string]bool
	// Wide is a rule that depends on several nodes.
	Wide Wide
}

// Wide is the part of a rule that depends on several nodes.
type Wide interface {
	// Follow is called with each node before the first decision, and with each that has changed before
	// a decision. A node without Object is gone, or not there yet.
	Follow(*Node)
	// Settle is called when all changes have been followed. It reports whether the traits of nodes
	// that have not changed may be others now.
	Settle() bool
	// Trait appends what Filter and Score depend on, besides what is common to all nodes: they return
	// the same for nodes with the same trait. The trait of a node changes only with the node, with one
	// that has the same hostname, and when Settle says so.
	Trait(to []byte, n *Node) []byte
	// Begin is called before a decision.
	Begin()
	// Filter refuses a node.
	Filter(*Node) *Refusal
	// Score returns the scores of the feasible nodes, normalised, in their order; nil if there is
	// nothing to say.
	Score(feasible []Alike) []int64
}

// A Refusal is the reason why a node is not feasible.
type Refusal struct {
	Plugin  string
	Reasons []string // in the words of kube-scheduler
	// Final says that the node would not be feasible without the pods on it either.
	Final bool
	// Err says that the rule has failed, so that the pod cannot be placed at all.
	Err error
}

// Message returns the reasons as those of the only node.
func (r *Refusal) Message() string {
	counts := map[string]int{}
	for _, reason := range r.Reasons {
		counts[reason]++
	}
	return countReasons(1, counts)
}

// A Profile is a list of plugins.
type Profile struct {
	// Plugins run in this order: the first one that rejects a node gives the reason.
	Plugins []Weighted
	// Preempter selects the pods that are deleted in favour of one that fits no node.
	Preempter Preempter
	// NeverPreempts reports that none are.
	NeverPreempts bool
	// NeverDeallocates reports that a pod that fits no node keeps the devices of its claims.
	NeverDeallocates bool
}

// Has reports whether a plugin of this name is in the profile.
func (p *Profile) Has(name string) bool {
	return slices.ContainsFunc(p.Plugins, func(w Weighted) bool { return w.Name() == name })
}

// A Weighted is a plugin with the weight of its scores.
type Weighted struct {
	Plugin
	Weight int64
	// Without are the parts of the plugin that are not in use.
	Without Parts
}

// Parts are parts of a plugin.
type Parts struct{ Filter, Score bool }

// omit removes parts from a rule.
func (r *Rule) omit(p Parts) {
	if p.Filter {
		r.Filter = nil
	}
	if p.Score {
		r.Score, r.Normalize = nil, nil
	}
	if r.Wide != nil && p != (Parts{}) {
		r.Wide = partial{r.Wide, p}
	}
}

// partial is a Wide without some parts.
type partial struct {
	Wide
	without Parts
}

func (p partial) Filter(n *Node) *Refusal {
	if p.without.Filter {
		return nil
	}
	return p.Wide.Filter(n)
}

func (p partial) Score(feasible []Alike) []int64 {
	if p.without.Score {
		return nil
	}
	return p.Wide.Score(feasible)
}

// DefaultProfile returns the plugins that kube-scheduler has without a configuration.
func DefaultProfile() *Profile {
	return &Profile{Plugins: []Weighted{
		{Plugin: NodeName{}},
		{Plugin: NodeUnschedulable{}},
		{Plugin: TaintToleration{}, Weight: 3},
		{Plugin: NodeAffinity{}, Weight: 2},
		{Plugin: NodePorts{}},
		{Plugin: NodeResourcesFit{}, Weight: 1},
		{Plugin: VolumeRestrictions{}},
		{Plugin: NodeVolumeLimits{}},
		{Plugin: VolumeBinding{}, Weight: 1},
		{Plugin: VolumeZone{}},
		{Plugin: PodTopologySpread{}, Weight: 2},
		{Plugin: InterPodAffinity{HardPodAffinityWeight: 1}, Weight: 2},
		{Plugin: DynamicResources{FilterTimeout: 10 * time.Second, BindingTimeout: 10 * time.Minute}, Weight: 2},
		{Plugin: NodeDeclaredFeatures{}},
		{Plugin: NodeResourcesBalancedAllocation{}, Weight: 1},
		{Plugin: ImageLocality{}, Weight: 1},
	}, Preempter: Preempter{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}}
}

// normalize is the usual change of scores: the highest becomes MaxScore, and with reverse zero
// does.
func normalize(scores []int64, reverse bool) {
	var most int64
	for _, s := range scores {
		most = max(most, s)
	}
	for i, s := range scores {
		if most > 0 {
			s = MaxScore * s / most
		}
		if reverse {
			s = MaxScore - s
		}
		scores[i] = s
	}
}
