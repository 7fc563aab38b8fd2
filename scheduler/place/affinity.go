package place

import (
	"encoding/binary"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// InterPodAffinity rejects nodes by the pods in the same domain, a rack for example: by the
// affinity and the anti-affinity of the pod, and the anti-affinity of the pods in the domain. It
// prefers nodes likewise.
type InterPodAffinity struct {
	// HardPodAffinityWeight is the weight of the required affinity of pods on nodes, which attracts
	// others.
	HardPodAffinityWeight int64
	// IgnorePreferredTermsOfExistingPods makes all nodes equal for a pod without preferred terms of
	// its own.
	IgnorePreferredTermsOfExistingPods bool
}

// Name implements Plugin.
func (InterPodAffinity) Name() string { return "InterPodAffinity" }

// An affinity is the terms of a pod. Terms that cannot be parsed match nothing.
type affinity struct {
	required, avoided      []term
	preferred, disfavoured []term // with weights
}

// A term matches pods by their labels and namespaces.
type term struct {
	key        string // of the label of nodes that is the domain
	selector   labels.Selector
	namespaces []string
	others     labels.Selector // of namespaces
	weight     int64
}

// affinityOf returns the terms of a pod, nil if there are none.
func affinityOf(p *corev1.Pod) *affinity {
	of := p.Spec.Affinity
	if of == nil || of.PodAffinity == nil && of.PodAntiAffinity == nil {
		return nil
	}
	a := &affinity{}
	if with := of.PodAffinity; with != nil {
		a.required = termsOf(p, with.RequiredDuringSchedulingIgnoredDuringExecution)
		a.preferred = weightedTermsOf(p, with.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if without := of.PodAntiAffinity; without != nil {
		a.avoided = termsOf(p, without.RequiredDuringSchedulingIgnoredDuringExecution)
		a.disfavoured = weightedTermsOf(p, without.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return a
}

func termsOf(p *corev1.Pod, terms []corev1.PodAffinityTerm) (all []term) {
	for i := range terms {
		all = append(all, termOf(p, &terms[i], 0))
	}
	return all
}

func weightedTermsOf(p *corev1.Pod, terms []corev1.WeightedPodAffinityTerm) (all []term) {
	for i := range terms {
		all = append(all, termOf(p, &terms[i].PodAffinityTerm, int64(terms[i].Weight)))
	}
	return all
}

func termOf(p *corev1.Pod, t *corev1.PodAffinityTerm, weight int64) term {
	parse := func(s *metav1.LabelSelector) labels.Selector {
		parsed, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return labels.Nothing()
		}
		return parsed
	}
	one := term{key: t.TopologyKey, selector: parse(t.LabelSelector), namespaces: t.Namespaces, others: parse(t.NamespaceSelector), weight: weight}
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		one.namespaces = []string{p.Namespace}
	}
	return one
}

func (t *term) matches(c *Cluster, p *Pod) bool {
	if !slices.Contains(t.namespaces, p.Namespace) && !t.others.Matches(c.namespaces[p.Namespace]) {
		return false
	}
	return t.selector.Matches(p.labels)
}

func (c *Cluster) matchesAll(terms []term, p *Pod) bool {
	for i := range terms {
		if !terms[i].matches(c, p) {
			return false
		}
	}
	return len(terms) > 0
}

// Compile implements Plugin. Without terms of the pod, only pods with terms matter; without these,
// too, nothing does.
func (p InterPodAffinity) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	terms := pod.affinity
	if terms == nil {
		terms = &affinity{}
	}
	a := &affine{
		cluster: c, pod: pod, terms: terms, hard: p.HardPodAffinityWeight,
		wanted: map[domain]int64{}, avoided: map[domain]int64{}, avoiding: map[domain]int64{}, worth: map[domain]int64{},
		weighed: map[domain]int64{}, keys: map[string]bool{},
		lonely:    &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't match pod affinity rules"}, Final: true},
		repelled:  &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't match pod anti-affinity rules"}},
		unwelcome: &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}},
		neutral:   p.IgnorePreferredTermsOfExistingPods && len(terms.preferred)+len(terms.disfavoured) == 0,
		first:     pod.affinity != nil && c.matchesAll(terms.required, pod),
	}
	for _, t := range slices.Concat(terms.required, terms.avoided) {
		a.know(t.key)
	}
	return Rule{Wide: a}, nil
}

// A domain is the nodes with a value of a label.
type domain struct{ key, value string }

// affine is the rule of InterPodAffinity for a class: sums over all nodes, and the share of each.
type affine struct {
	cluster *Cluster
	pod     *Pod
	terms   *affinity
	hard    int64
	neutral bool // all nodes have the same score
	first   bool // the pod matches its own required terms: the first of its kind may run anywhere

	wanted   map[domain]int64 // pods that match all required terms
	avoided  map[domain]int64 // pods that the pod keeps away from
	avoiding map[domain]int64 // pods that keep away from the pod
	worth    map[domain]int64 // sums of weights
	weighed  map[domain]int64 // how many weights are in worth
	shares   []share          // by slot
	keys     map[string]bool  // labels of nodes that matter, or have mattered
	ordered  []string         // the same
	more     bool             // there are more keys than at the last Settle

	lonely, repelled, unwelcome *Refusal
}

// A share is the contribution of a node to the sums.
type share struct{ wanted, avoided, avoiding, worth []amount }

type amount struct {
	domain
	n int64
}

// Follow implements Wide.
func (a *affine) Follow(n *Node) {
	for len(a.shares) <= n.slot {
		a.shares = append(a.shares, share{})
	}
	a.add(&a.shares[n.slot], -1)
	a.shares[n.slot] = share{}
	if n.Object == nil || a.cluster.keepers == 0 && a.pod.affinity == nil {
		return
	}
	s := a.shareOf(n)
	a.add(&s, 1)
	a.shares[n.slot] = s
}

func (a *affine) add(s *share, times int64) {
	sum := func(to map[domain]int64, amounts []amount) {
		for _, one := range amounts {
			a.know(one.key)
			if to[one.domain] += times * one.n; to[one.domain] == 0 {
				delete(to, one.domain)
			}
		}
	}
	sum(a.wanted, s.wanted)
	sum(a.avoided, s.avoided)
	sum(a.avoiding, s.avoiding)
	sum(a.worth, s.worth)
	for _, one := range s.worth {
		if a.weighed[one.domain] += times; a.weighed[one.domain] == 0 {
			delete(a.weighed, one.domain)
		}
	}
}

func (a *affine) shareOf(n *Node) (s share) {
	c, own := a.cluster, a.terms
	note := func(to *[]amount, t *term, n1 int64) {
		if value, ok := n.Object.Labels[t.key]; ok {
			*to = append(*to, amount{domain{t.key, value}, n1})
		}
	}
	each := func(to *[]amount, terms []term, p *Pod, factor int64) {
		for i := range terms {
			if terms[i].matches(c, p) {
				weight := int64(1)
				if factor != 0 {
					weight = factor * terms[i].weight
				}
				note(to, &terms[i], weight)
			}
		}
	}
	for _, p := range n.Pods {
		if a.pod.affinity != nil {
			if c.matchesAll(own.required, p) {
				for i := range own.required {
					note(&s.wanted, &own.required[i], 1)
				}
			}
			each(&s.avoided, own.avoided, p, 0)
			each(&s.worth, own.preferred, p, 1)
			each(&s.worth, own.disfavoured, p, -1)
		}
		if p.affinity == nil {
			continue
		}
		each(&s.avoiding, p.affinity.avoided, a.pod, 0)
		if a.hard > 0 {
			for i := range p.affinity.required {
				if p.affinity.required[i].matches(c, a.pod) {
					note(&s.worth, &p.affinity.required[i], a.hard)
				}
			}
		}
		each(&s.worth, p.affinity.preferred, a.pod, 1)
		each(&s.worth, p.affinity.disfavoured, a.pod, -1)
	}
	return s
}

// Settle implements Wide.
func (a *affine) Settle() bool {
	more := a.more
	a.more = false
	return more
}

// Trait implements Wide. Of a host, which is a domain of its own, the sums matter; of others, which
// domain it is.
func (a *affine) Trait(to []byte, n *Node) []byte {
	for _, key := range a.ordered {
		value, ok := n.Object.Labels[key]
		switch at := (domain{key, value}); {
		case !ok:
			to = append(to, 0)
		case key == corev1.LabelHostname:
			to = append(to, 1, sign(a.wanted[at]), sign(a.avoided[at]), sign(a.avoiding[at]))
			to = binary.AppendVarint(to, a.worth[at])
		default:
			to = append(binary.AppendUvarint(append(to, 2), uint64(len(value))), value...)
		}
	}
	return to
}

// sign is 1 for a positive number, and otherwise 0.
func sign(n int64) byte {
	if n > 0 {
		return 1
	}
	return 0
}

// know adds a label to those that may distinguish nodes.
func (a *affine) know(key string) {
	if !a.keys[key] {
		a.keys[key], a.ordered, a.more = true, append(a.ordered, key), true
	}
}

// Begin implements Wide.
func (*affine) Begin() {}

// Filter implements Wide.
func (a *affine) Filter(n *Node) *Refusal {
	if !a.hasWanted(n) {
		return a.lonely
	}
	if len(a.avoided) > 0 {
		for i := range a.terms.avoided {
			key := a.terms.avoided[i].key
			if value, ok := n.Object.Labels[key]; ok && a.avoided[domain{key, value}] > 0 {
				return a.repelled
			}
		}
	}
	if len(a.avoiding) > 0 {
		for key := range a.keys {
			if value, ok := n.Object.Labels[key]; ok && a.avoiding[domain{key, value}] > 0 {
				return a.unwelcome
			}
		}
	}
	return nil
}

// hasWanted reports whether pods that match all required terms are in all domains of a node.
func (a *affine) hasWanted(n *Node) bool {
	all := true
	for i := range a.terms.required {
		key := a.terms.required[i].key
		value, ok := n.Object.Labels[key]
		if !ok {
			return false
		}
		all = all && a.wanted[domain{key, value}] > 0
	}
	return all || len(a.wanted) == 0 && a.first
}

// Score implements Wide.
func (a *affine) Score(feasible []Alike) []int64 {
	if len(a.weighed) == 0 || a.neutral {
		return nil
	}
	scores := make([]int64, len(feasible))
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i, n := range feasible {
		for key := range a.keys {
			if value, ok := n.Object.Labels[key]; ok {
				scores[i] += a.worth[domain{key, value}]
			}
		}
		least, most = min(least, scores[i]), max(most, scores[i])
	}
	for i := range scores {
		if most == least {
			scores[i] = 0
			continue
		}
		scores[i] = int64(MaxScore * (float64(scores[i]-least) / float64(most-least)))
	}
	return scores
}
