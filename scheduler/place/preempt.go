package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A Preemption is the result of Preempt: the pods to delete so that a pod fits a node.
type Preemption struct {
	Candidate        // Node is "" if preemption does not help
	Message   string // in the words of kube-scheduler
	// Renounce reports that the pod loses its nomination, if it has one.
	Renounce bool
}

// A Candidate is a node that a pod could have if its victims were gone.
type Candidate struct {
	Node       string
	Victims    []*corev1.Pod // the most important one first
	Violations int           // how many of them a PodDisruptionBudget protects
}

// Preempter configures DefaultPreemption of kube-scheduler, by its DefaultPreemptionArgs.
type Preempter struct {
	// MinCandidateNodesPercentage and MinCandidateNodesAbsolute are how many of the nodes where
	// preemption may help are candidates at least, in percent and in nodes. The higher number
	// counts.
	MinCandidateNodesPercentage, MinCandidateNodesAbsolute int
}

// SetBudget adds or replaces a PodDisruptionBudget.
func (c *Cluster) SetBudget(b *policyv1.PodDisruptionBudget) { c.budgets[b.Namespace+"/"+b.Name] = b }

// RemoveBudget forgets a PodDisruptionBudget.
func (c *Cluster) RemoveBudget(namespace, name string) { delete(c.budgets, namespace+"/"+name) }

// Evict notes that a pod was deleted in favour of another one. Until its removal, that one does not
// preempt more.
func (c *Cluster) Evict(uid types.UID) {
	if p := c.pods[uid]; p != nil {
		p.evicted = true
	}
}

// Preempt selects the pods that are deleted so that a pod without a feasible node gets one. Only
// pods with a lower priority are victims. The decision must be the last one of its cluster.
func (d Decision) Preempt(by Preempter) Preemption {
	if reason := d.ineligible(); reason != "" {
		return Preemption{Message: "preemption: " + reason}
	}
	candidates, reasons := d.Candidates(by)
	if len(candidates) == 0 {
		return Preemption{Message: "preemption: " + countReasons(d.cluster.count, reasons), Renounce: true}
	}
	if d.ext != nil {
		var err error
		if candidates, err = d.ext.Victims(candidates); err != nil {
			return Preemption{Message: "preemption: " + err.Error()}
		}
		if len(candidates) == 0 {
			return Preemption{Message: "preemption: no candidate node for preemption"}
		}
	}
	best := slices.MinFunc(candidates, d.cluster.compare)
	return Preemption{
		Candidate: best,
		Message:   fmt.Sprintf("preemption: found a potential placement for pod on node %v, preempting %d victims", best.Node, len(best.Victims)),
	}
}

// ineligible returns why the pod preempts none, "" if it may.
func (d Decision) ineligible() string {
	if policy := d.pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	n := d.cluster.nodes[d.cluster.Nominated(d.pod.UID)]
	if n == nil || n.Object == nil {
		return ""
	}
	if no := d.refusal(n); no == nil || no.Final {
		return ""
	}
	for _, p := range n.Pods {
		if p.priority < Priority(d.pod) && (p.evicted || p.preempted) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// refusal returns why a node is not feasible.
func (d Decision) refusal(n *Node) *Refusal {
	if whole := d.whole(); whole != nil {
		return whole
	}
	return d.refusalOf(n, d.class.begin())
}

// isPreempted reports whether a pod terminates because it was preempted.
func isPreempted(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

// Candidates returns the nodes that the pod could have if pods with lower priorities were gone, or,
// if there are none, how many nodes have which reason.
func (d Decision) Candidates(by Preempter) (all []Candidate, reasons map[string]int) {
	const unhelpful = "Preemption is not helpful for scheduling"
	c := d.cluster
	reasons = map[string]int{}
	var nodes []*Node
	refusals := d.Refusals()
	for _, n := range c.slots {
		if n == nil || n.Object == nil {
			continue
		}
		if no := refusals[n.Name]; no == nil || no.Final || d.class.refusal != nil {
			reasons[unhelpful]++
			continue
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, reasons
	}
	enough := min(max(len(nodes)*by.MinCandidateNodesPercentage/100, by.MinCandidateNodesAbsolute), len(nodes))
	offset, harmless := c.random.IntN(len(nodes)), 0
	budgets := c.sortedBudgets()
	for i := range nodes {
		n := nodes[(offset+i)%len(nodes)]
		candidate, no := d.dryRun(n, budgets)
		if len(no) > 0 {
			for _, reason := range no {
				reasons[reason]++
			}
			continue
		}
		all = append(all, candidate)
		if candidate.Violations == 0 {
			harmless++
		}
		if harmless > 0 && len(all) >= enough {
			break
		}
	}
	return all, reasons
}

// dryRun selects the victims on a node: it removes all pods with lower priorities, and puts back,
// the most important ones first, those with which the pod fits. Those that a budget protects come
// before others.
func (d Decision) dryRun(n *Node, budgets []budget) (found Candidate, reasons []string) {
	c, k := d.cluster, d.class
	defer k.restore(n)
	trial := n.copy()
	var lower []*Pod
	for _, p := range n.Pods {
		if p.priority < Priority(d.pod) {
			lower = append(lower, p)
			trial.remove(p)
		}
	}
	if len(lower) == 0 {
		return found, []string{"No preemption victims found for incoming pod"}
	}
	refusal := func() *Refusal {
		if with := c.withNominees(trial, d.pod); with != nil {
			if no := d.refusalIf(with); no != nil {
				return no
			}
		}
		return d.refusalIf(trial)
	}
	if no := refusal(); no != nil {
		return found, no.Reasons
	}
	slices.SortFunc(lower, importance)
	found.Node = n.Name
	protected, others := violating(lower, budgets)
	var victims []*Pod
	for _, p := range slices.Concat(protected, others) {
		trial.add(p)
		if refusal() == nil {
			continue
		}
		trial.remove(p)
		victims = append(victims, p)
		if slices.Contains(protected, p) {
			found.Violations++
		}
	}
	slices.SortFunc(victims, importance)
	for _, p := range victims {
		if object := p.Load(); object != nil {
			found.Victims = append(found.Victims, object)
		}
	}
	if len(found.Victims) == 0 {
		return found, []string{fmt.Sprintf("expected at least one victim pod on node %q", n.Name)}
	}
	return found, nil
}

// refusalIf returns why a node would not be feasible if it were like n. Until class.restore, the
// class remembers n.
func (d Decision) refusalIf(n *Node) *Refusal {
	no := d.class.refusalIf(n)
	if no == nil && d.ext != nil {
		no = d.ext.Filter(n)
	}
	return no
}

// importance orders pods by how important they are: those with higher priorities and, among equals,
// those that run longer come first. A pod that has not started counts as one that starts now.
func importance(a, b *Pod) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.started, b.started),
		cmp.Compare(a.created, b.created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// started returns the time since which a pod runs.
func started(p *corev1.Pod) int64 {
	if p.Status.StartTime == nil {
		return math.MaxInt64
	}
	return p.Status.StartTime.UnixNano()
}

// compare orders candidates: the best one is the least.
func (c *Cluster) compare(a, b Candidate) int {
	sum := func(victims []*corev1.Pod) (sum int64) {
		for _, p := range victims {
			sum += int64(Priority(p)) + math.MaxInt32 + 1 // not negative, so that fewer victims are better
		}
		return sum
	}
	since := func(victims []*corev1.Pod) int64 { // the first one has the highest priority, and started first
		return started(victims[0])
	}
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(Priority(a.Victims[0]), Priority(b.Victims[0])),
		cmp.Compare(sum(a.Victims), sum(b.Victims)),
		cmp.Compare(len(a.Victims), len(b.Victims)),
		cmp.Compare(since(b.Victims), since(a.Victims)),
		cmp.Compare(c.nodes[a.Node].tie, c.nodes[b.Node].tie),
	)
}

// A budget is a PodDisruptionBudget with its selector.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

// sortedBudgets returns the budgets that can match a pod, by namespace and name.
func (c *Cluster) sortedBudgets() (all []budget) {
	for _, b := range c.budgets {
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !selector.Empty() {
			all = append(all, budget{b, selector})
		}
	}
	slices.SortFunc(all, func(a, b budget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// violating divides pods into those whose deletion, in their order, would violate a budget, and
// others.
func violating(pods []*Pod, budgets []budget) (protected, others []*Pod) {
	allowed := make([]int32, len(budgets))
	for i := range budgets {
		allowed[i] = budgets[i].Status.DisruptionsAllowed
	}
	for _, p := range pods {
		violates := false
		for i := range budgets {
			if violates || p.labels.empty() || !budgets[i].matches(p) {
				continue
			}
			allowed[i]--
			violates = allowed[i] < 0
		}
		if violates {
			protected = append(protected, p)
		} else {
			others = append(others, p)
		}
	}
	return protected, others
}

// matches reports whether a budget is about a pod. One that the server has counted already is not.
func (b *budget) matches(p *Pod) bool {
	if _, counted := b.Status.DisruptedPods[p.Name]; counted {
		return false
	}
	return b.Namespace == p.Namespace && b.selector.Matches(p.labels)
}
