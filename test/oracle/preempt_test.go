package oracle

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/scheduler/place"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

var preemptClusters = flag.Int("preempt-clusters", 400, "clusters of TestPreempt")

// TestPreempt compares package place with the plugin DefaultPreemption of kube-scheduler: for
// random clusters and pods that fit no node, the candidates, their victims and how many budgets
// these violate, the node that is chosen, and the message must be the same.
func TestPreempt(t *testing.T) {
	seed := seeds.Of(t)
	metrics.Register()
	counts := map[string]int{}
	for i := range *preemptClusters {
		g := &clusterGenerator{rand.New(rand.NewPCG(seed, uint64(i)))}
		w := g.world()
		g.contend(w)
		ours := place.NewCluster(1)
		w.tell(ours)
		for _, b := range w.budgets {
			ours.SetBudget(b)
		}
		for _, p := range w.nominated {
			ours.Nominate(p, p.Status.NominatedNodeName)
		}
		for k := range 4 {
			p := g.pod(fmt.Sprint("new", k), "")
			g.rank(p)
			plain(p)
			if g.sometimes(10) {
				p.Spec.PreemptionPolicy = new(corev1.PreemptNever)
			}
			if g.sometimes(4) {
				p.Status.NominatedNodeName = w.nodes[g.r.IntN(len(w.nodes))].Name
				ours.Nominate(p, p.Status.NominatedNodeName)
				w.nominated = append(w.nominated, p)
			}
			want, got := newRealPlacer(t, w).preempt(t, p, w.budgets), preempt(ours, p)
			if want != got {
				t.Fatalf("cluster %d: %s\nkube-scheduler:\n%s\nkapok:\n%s", i, describeContention(w, p), want, got)
			}
			for _, word := range []string{"fits", "found a potential", "not helpful", "No preemption victims", "not eligible", "violations 1", "candidate"} {
				counts[word] += strings.Count(got, word)
			}
		}
	}
	t.Log(counts)
	for word, n := range counts {
		if n < 3 {
			t.Errorf("%d cases of %q: the clusters are not various", n, word)
		}
	}
}

// TestPreemptVolumes is TestPreempt for pods with volumes, of which VolumeRestrictions refuses some
// because another pod uses their claim ReadWriteOncePod: its user is the victim.
func TestPreemptVolumes(t *testing.T) {
	seed := seeds.Of(t)
	metrics.Register()
	preempted := 0
	for i := range *preemptClusters {
		g := &clusterGenerator{rand.New(rand.NewPCG(seed, uint64(i)))}
		w := g.world()
		g.storage(w)
		used := map[string]bool{} // kube-scheduler counts a claim with two users once, and both when they are removed
		with := func(p *corev1.Pod, count bool) {
			p.Namespace = "default" // kube-scheduler ignores the namespace of the users of claims
			w.storage = append(w.storage, g.volumes(p)...)
			p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
				claim := v.PersistentVolumeClaim
				if claim == nil || v.Ephemeral != nil {
					return false
				}
				had := used[claim.ClaimName]
				used[claim.ClaimName] = had || count
				return had && count
			})
		}
		for _, p := range w.pods {
			with(p, true)
		}
		g.contend(w)
		w.nominated = nil
		ours := place.NewCluster(1)
		w.tell(ours)
		for k := range 4 {
			p := g.pod(fmt.Sprint("new", k), "")
			p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
			g.rank(p)
			with(p, false)
			w.tellStorage(ours)
			want, got := newRealPlacer(t, w).preempt(t, p, nil), preempt(ours, p)
			if want != got {
				t.Fatalf("cluster %d: %s%s\nkube-scheduler:\n%s\nkapok:\n%s", i, describeContention(w, p), describeStorage(w), want, got)
			}
			for _, no := range ours.Place(p, defaultProfile).Refusals() {
				if strings.Contains(no.Reasons[0], "ReadWriteOncePod") && strings.Contains(got, "found a potential") {
					preempted++
					break
				}
			}
		}
	}
	if preempted < 10 {
		t.Errorf("%d preemptions because of a claim of one pod: the clusters are not various", preempted)
	}
}

// contend gives pods priorities and start times, some of them a nominated node, and makes budgets.
func (g *clusterGenerator) contend(w *world) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	taken := map[string]bool{} // kube-scheduler forgets a port of two pods when one of them is removed
	for i, p := range w.pods {
		g.rank(p)
		plain(p)
		for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for k := range containers {
				containers[k].Ports = slices.DeleteFunc(containers[k].Ports, func(port corev1.ContainerPort) bool {
					key := fmt.Sprint(p.Spec.NodeName, port.Protocol, port.HostPort)
					had := taken[key]
					taken[key] = true
					return had
				})
			}
		}
		p.Status.StartTime = new(metav1.NewTime(start.Add(time.Duration(g.r.IntN(1000)*100+i) * time.Second)))
		if p.DeletionTimestamp != nil && g.sometimes(2) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		}
	}
	for i := range g.r.IntN(3) {
		p := g.pod(fmt.Sprint("nominated", i), "")
		g.rank(p)
		plain(p)
		if a := p.Spec.Affinity; a != nil {
			a.PodAntiAffinity = nil // kube-scheduler ignores it, unless the placed pod or others on nodes have some
		}
		p.Status.NominatedNodeName = w.nodes[g.r.IntN(len(w.nodes))].Name
		w.nominated = append(w.nominated, p)
	}
	for _, app := range []string{"web", "db"} {
		if g.sometimes(2) {
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}}
			b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
			b.Status.DisruptionsAllowed = g.r.Int32N(2)
			if g.sometimes(4) {
				b.Status.DisruptedPods = map[string]metav1.Time{fmt.Sprint("p", g.r.IntN(10)): {}}
			}
			w.budgets = append(w.budgets, b)
		}
	}
}

func (g *clusterGenerator) rank(p *corev1.Pod) {
	p.Spec.Priority = new([]int32{-5, 0, 0, 7, 7, 1000}[g.r.IntN(6)])
}

// plain removes what kube-scheduler counts in one way for all pods and in another one for single
// victims: with topology spread constraints that must be satisfied, terminating pods and selectors
// that match all pods.
func plain(p *corev1.Pod) {
	p.Spec.TopologySpreadConstraints = slices.DeleteFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.LabelSelector != nil && len(c.LabelSelector.MatchLabels)+len(c.LabelSelector.MatchExpressions) == 0
	})
	if p.DeletionTimestamp != nil {
		p.Labels = nil
	}
}

// preempt returns the result of DefaultPreemption for a pod.
func (r *realPlacer) preempt(t *testing.T, p *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) string {
	t.Helper()
	ctx := context.Background()
	_ = r.factory.Core().V1().Pods().Informer().GetStore().Add(p)
	for _, b := range budgets {
		_ = r.factory.Policy().V1().PodDisruptionBudgets().Informer().GetStore().Add(b)
	}
	plugin, err := defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}, r.framework, feature.Features{})
	if err != nil {
		t.Fatal(err)
	}
	plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *corev1.Pod, string) (bool, error) {
		return false, nil
	}
	all, err := r.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	state := framework.NewCycleState()
	statuses := framework.NewDefaultNodeToStatus()
	var potential []fwk.NodeInfo
	only, status, _ := r.framework.RunPreFilterPlugins(ctx, state, p)
	if status.IsSuccess() {
		for _, n := range all {
			if !only.AllNodes() && !only.NodeNames.Has(n.Node().Name) {
				continue
			}
			status := r.framework.RunFilterPluginsWithNominatedPods(ctx, state, p, n)
			if status.IsSuccess() {
				return "fits"
			}
			statuses.Set(n.Node().Name, status)
			if status.Code() == fwk.Unschedulable {
				potential = append(potential, n)
			}
		}
	} else {
		statuses.SetAbsentNodesStatus(status)
	}
	var lines []string
	if len(potential) > 0 {
		candidates, _, err := plugin.Evaluator.DryRunPreemption(ctx, state, p, potential, budgets, 0, int32(len(potential)))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range candidates {
			lines = append(lines, candidateText(place.Candidate{Node: c.Name(), Victims: c.Victims().Pods, Violations: int(c.Victims().NumPDBViolations)}))
		}
	}
	result, status := plugin.PostFilter(ctx, state, p, statuses)
	nominated := p.Status.NominatedNodeName
	if result != nil && result.NominatingInfo != nil {
		nominated = result.NominatedNodeName
	}
	return preemptionText(lines, nominated, status.Message())
}

// preempt returns the result of place for a pod, in the form of realPlacer.preempt.
func preempt(c *place.Cluster, p *corev1.Pod) string {
	d := c.Place(p, defaultProfile)
	if d.Node != "" {
		return "fits"
	}
	var lines []string
	candidates, _ := d.Candidates(defaultProfile.Preempter)
	for _, one := range candidates {
		lines = append(lines, candidateText(one))
	}
	result := d.Preempt(defaultProfile.Preempter)
	nominated := p.Status.NominatedNodeName
	if result.Renounce || result.Node != "" {
		nominated = result.Node
	}
	return preemptionText(lines, nominated, result.Message)
}

func preemptionText(lines []string, nominated, message string) string {
	slices.Sort(lines)
	return strings.Join(append(lines, "nominated for "+nominated, message), "\n")
}

func candidateText(c place.Candidate) string {
	var names []string
	for _, v := range c.Victims {
		names = append(names, v.Name)
	}
	return fmt.Sprintf("candidate %s: victims %v, violations %d", c.Node, names, c.Violations)
}

func describeContention(w *world, p *corev1.Pod) string {
	var b strings.Builder
	b.WriteString(describe(w, p))
	for _, other := range slices.Concat(w.pods, w.nominated, []*corev1.Pod{p}) {
		fmt.Fprintf(&b, "%s on %s: priority %d, started %v, deleted %v\n", other.Name, cmp.Or(other.Spec.NodeName, other.Status.NominatedNodeName), *other.Spec.Priority, other.Status.StartTime, other.DeletionTimestamp)
	}
	for _, other := range w.nominated {
		fmt.Fprintf(&b, "nominated for %s: %s/%s %v %+v\n", other.Status.NominatedNodeName, other.Namespace, other.Name, other.Labels, other.Spec)
	}
	for _, budget := range w.budgets {
		fmt.Fprintf(&b, "budget %s: %v\n", budget.Name, budget.Status)
	}
	return b.String()
}

// nominator implements the interface of kube-scheduler for the nominated pods of a world.
type nominator map[string][]fwk.PodInfo

func (n nominator) NominatedPodsForNode(node string) []fwk.PodInfo { return n[node] }

func (nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nominator) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (nominator) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      {}

func (w *world) nominator() nominator {
	n := nominator{}
	for _, p := range w.nominated {
		if info, err := framework.NewPodInfo(p); err == nil {
			n[p.Status.NominatedNodeName] = append(n[p.Status.NominatedNodeName], info)
		}
	}
	return n
}
