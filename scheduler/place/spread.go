package place

import (
	"encoding/binary"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// PodTopologySpread spreads the pods that a selector matches over domains: the nodes with a value
// of a label. Constraints that must be satisfied refuse nodes in domains with too many of these
// pods; others prefer those with few.
type PodTopologySpread struct {
	// Defaults are the constraints, without selectors, of pods that have none and are of a service
	// or a controller. Nil means those of kube-scheduler, which prefer to spread over hosts and
	// zones; an empty list means none.
	Defaults []corev1.TopologySpreadConstraint
}

// Name implements Plugin.
func (PodTopologySpread) Name() string { return "PodTopologySpread" }

// usual are the default constraints of pods that have none.
var usual = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

// A constraint is one of those of a class.
type constraint struct {
	key           string
	selector      labels.Selector
	skew, domains int64
	honorAffinity bool // count only nodes that match the selector and the required affinity of the pod
	honorTaints   bool // count only nodes whose taints the pod tolerates
}

// Compile implements Plugin.
func (p PodTopologySpread) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	const reason = "node(s) didn't match pod topology spread constraints"
	s := &spread{
		crowded:    &Refusal{Plugin: p.Name(), Reasons: []string{reason}},
		unlabelled: &Refusal{Plugin: p.Name(), Reasons: []string{reason + " (missing required label)"}, Final: true},
		pod:        pod, match: nodeaffinity.GetRequiredNodeAffinity(pod.Object), strict: true,
	}
	list := pod.Object.Spec.TopologySpreadConstraints
	var defaults labels.Selector // of the default constraints
	if len(list) == 0 {
		selector := c.selectorOf(pod.Object)
		if selector.Empty() {
			return Rule{}, nil
		}
		list = p.Defaults
		if list == nil {
			list, s.strict = usual, false
		}
		defaults = selector
	}
	var err error
	if s.hard, err = constraintsOf(pod.Object, list, corev1.DoNotSchedule); err == nil {
		s.soft, err = constraintsOf(pod.Object, list, corev1.ScheduleAnyway)
	}
	if err != nil {
		return Rule{}, &Refusal{Plugin: p.Name(), Reasons: []string{err.Error()}}
	}
	if defaults != nil {
		for _, all := range [][]constraint{s.hard, s.soft} {
			for i := range all {
				all[i].selector = defaults
			}
		}
	}
	if len(s.hard)+len(s.soft) == 0 {
		return Rule{}, nil
	}
	s.counts = make([]map[string]*members, len(s.hard))
	s.levels = make([]map[int64]int64, len(s.hard))
	s.sums = make([]map[string]int64, len(s.soft))
	s.least, s.self = make([]int64, len(s.hard)), make([]bool, len(s.hard))
	for i := range s.hard {
		s.counts[i], s.levels[i] = map[string]*members{}, map[int64]int64{}
		s.self[i] = s.hard[i].selector.Matches(pod.labels)
	}
	for i := range s.soft {
		s.sums[i] = map[string]int64{}
	}
	return Rule{Wide: s}, nil
}

func constraintsOf(p *corev1.Pod, list []corev1.TopologySpreadConstraint, when corev1.UnsatisfiableConstraintAction) (all []constraint, err error) {
	for i := range list {
		c := &list[i]
		if c.WhenUnsatisfiable != when {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, err
		}
		if r, selectable := selector.Requirements(); selectable {
			set := labels.Set{}
			for _, key := range c.MatchLabelKeys {
				if value, ok := p.Labels[key]; ok {
					set[key] = value
				}
			}
			if len(set) > 0 {
				selector = labels.SelectorFromSet(set).Add(r...)
			}
		}
		one := constraint{key: c.TopologyKey, selector: selector, skew: int64(c.MaxSkew), domains: 1, honorAffinity: true}
		if c.MinDomains != nil {
			one.domains = int64(*c.MinDomains)
		}
		if c.NodeAffinityPolicy != nil {
			one.honorAffinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
		}
		if c.NodeTaintsPolicy != nil {
			one.honorTaints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		}
		all = append(all, one)
	}
	return all, nil
}

// spread is the rule of PodTopologySpread for a class.
type spread struct {
	pod    *Pod
	match  nodeaffinity.RequiredNodeAffinity
	strict bool // only nodes that have the labels of all constraints count

	crowded, unlabelled *Refusal

	hard, soft []constraint
	counts     []map[string]*members // of pods, by hard constraint and domain
	sums       []map[string]int64    // of pods, by soft constraint and domain
	shares     []spreadShare         // by slot
	levels     []map[int64]int64     // how many domains have a number of pods, by hard constraint
	least      []int64               // pods in the domain with the fewest, by hard constraint
	self       []bool                // whether the pod counts itself, by hard constraint
}

// A spreadShare is what a node adds to the sums, and the pods on it, by soft constraint about
// hosts.
type spreadShare struct {
	parts []part
	here  []int64
}

// members are the nodes of a domain and their pods.
type members struct{ nodes, pods int64 }

// A part is the contribution of a node to a constraint.
type part struct {
	hard  bool
	index int
	value string
	pods  int64
}

// Follow implements Wide.
func (s *spread) Follow(n *Node) {
	for len(s.shares) <= n.slot {
		s.shares = append(s.shares, spreadShare{})
	}
	s.add(s.shares[n.slot].parts, -1)
	s.shares[n.slot] = spreadShare{}
	if n.Object == nil {
		return
	}
	s.shares[n.slot] = spreadShare{s.partsOf(n), make([]int64, len(s.soft))}
	s.add(s.shares[n.slot].parts, 1)
	for k := range s.soft {
		if s.soft[k].key == corev1.LabelHostname {
			s.shares[n.slot].here[k] = s.pods(&s.soft[k], n)
		}
	}
}

// Settle implements Wide.
func (*spread) Settle() bool { return false }

// Trait implements Wide. Of a host, which is a domain of its own, the pods matter; of others, which
// domain it is.
func (s *spread) Trait(to []byte, n *Node) []byte {
	trait := func(key string, pods func(value string) int64) {
		value, ok := n.Object.Labels[key]
		switch {
		case !ok:
			to = append(to, 0)
		case key == corev1.LabelHostname:
			to = binary.AppendVarint(append(to, 1), pods(value))
		default:
			to = append(binary.AppendUvarint(append(to, 2), uint64(len(value))), value...)
		}
	}
	for i := range s.hard {
		trait(s.hard[i].key, func(value string) int64 {
			if g := s.counts[i][value]; g != nil {
				return g.pods
			}
			return 0
		})
	}
	for i := range s.soft {
		trait(s.soft[i].key, func(string) int64 { return s.shares[n.slot].here[i] })
	}
	return to
}

// Begin implements Wide.
func (s *spread) Begin() {
	for i := range s.hard {
		s.least[i] = 0
		if int64(len(s.counts[i])) < s.hard[i].domains {
			continue
		}
		s.least[i] = math.MaxInt32
		for pods := range s.levels[i] {
			s.least[i] = min(s.least[i], pods)
		}
	}
}

func (s *spread) add(parts []part, times int64) {
	for _, p := range parts {
		if !p.hard {
			if s.sums[p.index][p.value] += times * p.pods; s.sums[p.index][p.value] == 0 {
				delete(s.sums[p.index], p.value)
			}
			continue
		}
		g := s.counts[p.index][p.value]
		if g == nil {
			g = &members{}
			s.counts[p.index][p.value] = g
		} else {
			s.level(p.index, g.pods, -1)
		}
		g.nodes += times
		if g.pods += times * p.pods; g.nodes == 0 {
			delete(s.counts[p.index], p.value)
		} else {
			s.level(p.index, g.pods, 1)
		}
	}
}

// level counts a domain with a number of pods, or no longer.
func (s *spread) level(constraint int, pods, by int64) {
	if s.levels[constraint][pods] += by; s.levels[constraint][pods] == 0 {
		delete(s.levels[constraint], pods)
	}
}

func (s *spread) partsOf(n *Node) (parts []part) {
	each := func(hard bool, all []constraint, strict bool) {
		if strict && !hasLabels(n, all) {
			return
		}
		for i := range all {
			c := &all[i]
			value, ok := n.Object.Labels[c.key]
			if !ok && strict || !s.counted(c, n) || !hard && c.key == corev1.LabelHostname {
				continue
			}
			parts = append(parts, part{hard, i, value, s.pods(c, n)})
		}
	}
	each(true, s.hard, true)
	each(false, s.soft, s.strict)
	return parts
}

func hasLabels(n *Node, all []constraint) bool {
	for i := range all {
		if _, ok := n.Object.Labels[all[i].key]; !ok {
			return false
		}
	}
	return true
}

// counted reports whether the pods of a node count.
func (s *spread) counted(c *constraint, n *Node) bool {
	if c.honorAffinity {
		if ok, _ := s.match.Match(n.Object); !ok {
			return false
		}
	}
	return !c.honorTaints || !untolerated(n.Object.Spec.Taints, s.pod.Object.Spec.Tolerations)
}

// pods returns how many pods of a node a constraint is about.
func (s *spread) pods(c *constraint, n *Node) (count int64) {
	if c.selector.Empty() {
		return 0
	}
	for _, p := range n.Pods {
		if !p.deleting && p.Namespace == s.pod.Namespace && c.selector.Matches(p.labels) {
			count++
		}
	}
	return count
}

// Filter implements Wide.
func (s *spread) Filter(n *Node) *Refusal {
	for i := range s.hard {
		c := &s.hard[i]
		value, ok := n.Object.Labels[c.key]
		if !ok {
			return s.unlabelled
		}
		have := int64(0)
		if g := s.counts[i][value]; g != nil {
			have = g.pods
		}
		if s.self[i] {
			have++
		}
		if have-s.least[i] > c.skew {
			return s.crowded
		}
	}
	return nil
}

// Score implements Wide.
func (s *spread) Score(feasible []Alike) []int64 {
	if len(s.soft) == 0 {
		return nil
	}
	weights := s.weights(feasible)
	scores := make([]int64, len(feasible))
	least, most := int64(math.MaxInt64), int64(0)
	const ignored = -1
	for i, n := range feasible {
		if s.strict && !hasLabels(n.Node, s.soft) {
			scores[i] = ignored
			continue
		}
		var sum float64
		for k := range s.soft {
			c := &s.soft[k]
			value, ok := n.Object.Labels[c.key]
			if !ok {
				continue
			}
			count := s.sums[k][value]
			if c.key == corev1.LabelHostname {
				count = s.shares[n.slot].here[k]
			}
			sum += float64(count)*weights[k] + float64(c.skew-1)
		}
		scores[i] = int64(math.Round(sum))
		least, most = min(least, scores[i]), max(most, scores[i])
	}
	for i, score := range scores {
		switch {
		case score == ignored:
			scores[i] = 0
		case most == 0:
			scores[i] = MaxScore
		default:
			scores[i] = MaxScore * (most + least - score) / most
		}
	}
	return scores
}

// weights returns for each soft constraint how much a pod in a domain counts: more, the more
// domains there are.
func (s *spread) weights(feasible []Alike) []float64 {
	sizes := make([]map[string]bool, len(s.soft))
	counted := 0
	for _, n := range feasible {
		if s.strict && !hasLabels(n.Node, s.soft) {
			continue
		}
		counted += n.Count
		for k := range s.soft {
			if s.soft[k].key == corev1.LabelHostname {
				continue
			}
			if sizes[k] == nil {
				sizes[k] = map[string]bool{}
			}
			sizes[k][n.Object.Labels[s.soft[k].key]] = true
		}
	}
	weights := make([]float64, len(s.soft))
	for k := range s.soft {
		size := len(sizes[k])
		if s.soft[k].key == corev1.LabelHostname {
			size = counted
		}
		weights[k] = math.Log(float64(size + 2))
	}
	return weights
}
