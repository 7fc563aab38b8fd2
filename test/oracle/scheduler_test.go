package oracle

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/scheduler/place"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

var placeClusters = flag.Int("place-clusters", 300, "clusters of TestPlace")

// TestPlace compares package place with the plugins of kube-scheduler: for random clusters and
// pods, the nodes that are feasible, why the others are not, and the scores of each plugin must be
// the same.
func TestPlace(t *testing.T) {
	seed := seeds.Of(t)
	metrics.Register()
	for i := range *placeClusters {
		g := &clusterGenerator{rand.New(rand.NewPCG(seed, uint64(i)))}
		w := g.world()
		real := newRealPlacer(t, w)
		ours := place.NewCluster(1)
		w.tell(ours)
		for range 6 {
			p := g.pod("new", "")
			want, got := real.judge(t, p), judge(ours, p)
			if want != got {
				t.Fatalf("cluster %d: %s\nkube-scheduler:\n%s\nkapok:\n%s", i, describe(w, p), want, got)
			}
			// The cluster changes, so that what is kept of classes counts.
			if len(w.pods) > 0 && g.r.IntN(2) == 0 {
				at := g.r.IntN(len(w.pods))
				ours.RemovePod(w.pods[at].UID)
				w.pods = slices.Delete(w.pods, at, at+1)
			} else {
				w.add(g, ours)
			}
			real = newRealPlacer(t, w)
		}
	}
}

// A world is a cluster.
type world struct {
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	services   []*corev1.Service
	storage    []runtime.Object
	devices    []runtime.Object
	nominated  []*corev1.Pod
	budgets    []*policyv1.PodDisruptionBudget
	n          int
}

// tell adds all to a cluster that is empty. It keeps little, as that of a scheduler without plugins
// does.
func (w *world) tell(c *place.Cluster) {
	c.LoadPods(func(key types.NamespacedName) *corev1.Pod {
		i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.Namespace == key.Namespace && p.Name == key.Name })
		if i < 0 {
			return nil
		}
		return w.pods[i]
	})
	for _, ns := range w.namespaces {
		c.SetNamespace(ns.Name, ns.Labels)
	}
	for _, s := range w.services {
		c.SetService(s.Namespace, s.Name, s.Spec.Selector)
	}
	for _, n := range w.nodes {
		c.SetNode(n)
	}
	for _, p := range w.pods {
		c.SetPod(p)
	}
}

func (w *world) add(g *clusterGenerator, c *place.Cluster) {
	if len(w.nodes) == 0 {
		return
	}
	w.n++
	p := g.pod(fmt.Sprint("more", w.n), w.nodes[g.r.IntN(len(w.nodes))].Name)
	w.pods = append(w.pods, p)
	c.SetPod(p)
}

// realPlacer is kube-scheduler's framework with a snapshot of a world.
type realPlacer struct {
	framework framework.Framework
	snapshot  *cache.Snapshot
	factory   informers.SharedInformerFactory
}

func newRealPlacer(t *testing.T, w *world) *realPlacer {
	t.Helper()
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	return newConfiguredPlacer(t, w, cfg)
}

// newConfiguredPlacer returns the framework of the first profile of a configuration, without the
// plugins that Kapok does not have.
func newConfiguredPlacer(t *testing.T, w *world, cfg *config.KubeSchedulerConfiguration) *realPlacer {
	t.Helper()
	ctx := t.Context()
	profile := *cfg.Profiles[0].DeepCopy()
	var known []string
	for _, p := range place.DefaultProfile().Plugins {
		known = append(known, p.Name())
	}
	known = append(known, "PrioritySort", "DefaultBinder")
	enabled := profile.Plugins.MultiPoint.Enabled
	profile.Plugins.MultiPoint.Enabled = nil
	for _, p := range enabled {
		if slices.Contains(known, p.Name) {
			profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, p)
		}
	}
	var objects []runtime.Object
	for _, ns := range w.namespaces {
		objects = append(objects, ns)
	}
	for _, s := range w.services {
		objects = append(objects, s)
	}
	client := fake.NewClientset(append(objects, w.devices...)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, ns := range w.namespaces {
		_ = factory.Core().V1().Namespaces().Informer().GetStore().Add(ns)
	}
	for _, s := range w.services {
		_ = factory.Core().V1().Services().Informer().GetIndexer().Add(s)
	}
	snapshot := cache.NewSnapshot(w.pods, w.nodes)
	manager := w.deviceManager(t, factory)
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithComponentConfigVersion(cfg.APIVersion), frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSharedDRAManager(manager),
		frameworkruntime.WithMutableSnapshotLister(snapshot), frameworkruntime.WithPodNominator(w.nominator()),
		frameworkruntime.WithEventRecorder(&events.FakeRecorder{}), frameworkruntime.WithParallelism(1))
	if err != nil {
		t.Fatal(err)
	}
	w.stored(t, factory)
	return &realPlacer{f, snapshot, factory}
}

// judge returns what the plugins say of a pod, one line for each node.
func (r *realPlacer) judge(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	ctx := context.Background()
	all, err := r.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	state := framework.NewCycleState()
	only, status, _ := r.framework.RunPreFilterPlugins(ctx, state, p)
	if !status.IsSuccess() {
		for _, n := range all {
			lines[n.Node().Name] = refusal(status)
		}
		return text(lines)
	}
	var feasible []fwk.NodeInfo
	for _, n := range all {
		name := n.Node().Name
		if !only.AllNodes() && !only.NodeNames.Has(name) {
			lines[name] = "not looked at"
			continue
		}
		if status := r.framework.RunFilterPlugins(ctx, state, p, n); !status.IsSuccess() {
			lines[name] = refusal(status)
			continue
		}
		feasible = append(feasible, n)
	}
	if len(feasible) == 0 {
		return text(lines)
	}
	if status := r.framework.RunPreScorePlugins(ctx, state, p, feasible); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	scores, status := r.framework.RunScorePlugins(ctx, state, p, feasible)
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	for _, s := range scores {
		byPlugin := map[string]int64{"": s.TotalScore}
		for _, one := range s.Scores {
			byPlugin[one.Name] = one.Score
		}
		lines[s.Name] = scoreText(byPlugin)
	}
	return text(lines)
}

func refusal(s *fwk.Status) string {
	reasons := slices.Clone(s.Reasons())
	slices.Sort(reasons)
	return fmt.Sprint(s.Plugin(), " final=", s.Code() == fwk.UnschedulableAndUnresolvable, " ", strings.Join(reasons, ", "))
}

// judge returns what place says of a pod, in the form of realPlacer.judge.
func judge(c *place.Cluster, p *corev1.Pod) string { return judgeBy(c, p, defaultProfile) }

func judgeBy(c *place.Cluster, p *corev1.Pod, profile *place.Profile) string {
	d := c.Place(p, profile)
	lines := map[string]string{}
	for name, no := range d.Refusals() {
		reasons := slices.Clone(no.Reasons)
		slices.Sort(reasons)
		lines[name] = fmt.Sprint(no.Plugin, " final=", no.Final && no.Err == nil, " ", strings.Join(reasons, ", "))
		if strings.HasPrefix(no.Reasons[0], "node(s) didn't satisfy plugin(s)") {
			lines[name] = "not looked at"
		}
	}
	best := int64(-1)
	scores := d.Scores()
	for name, byPlugin := range scores {
		lines[name] = scoreText(byPlugin)
		best = max(best, byPlugin[""])
	}
	if d.Node != "" && scores[d.Node][""] != best {
		lines[d.Node] += " is chosen, but not the best"
	}
	return text(lines)
}

var defaultProfile = place.DefaultProfile()

// scoreText renders scores. A plugin whose score is zero is omitted: whether it was called makes no
// difference.
func scoreText(byPlugin map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(byPlugin)) {
		if byPlugin[name] != 0 {
			parts = append(parts, fmt.Sprint(name, "=", byPlugin[name]))
		}
	}
	return strings.Join(parts, " ")
}

func text(lines map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		all = append(all, name+": "+lines[name])
	}
	return strings.Join(all, "\n")
}

func describe(w *world, p *corev1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod %+v %+v\n", p.Labels, p.Spec)
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "node %s %v %v %v %v\n", n.Name, n.Labels, n.Spec, n.Status.Allocatable, n.Status.Images)
	}
	for _, other := range w.pods {
		fmt.Fprintf(&b, "on %s: %s/%s %v %+v\n", other.Spec.NodeName, other.Namespace, other.Name, other.Labels, other.Spec)
	}
	return b.String()
}

// A clusterGenerator makes random clusters.
type clusterGenerator struct{ r *rand.Rand }

func (g *clusterGenerator) one(of ...string) string { return of[g.r.IntN(len(of))] }

// sometimes is true once in n times.
func (g *clusterGenerator) sometimes(n int) bool { return g.r.IntN(n) == 0 }

func (g *clusterGenerator) world() *world {
	w := &world{}
	for _, name := range []string{"default", "other"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if g.sometimes(2) {
			ns.Labels = map[string]string{"team": g.one("a", "b")}
		}
		w.namespaces = append(w.namespaces, ns)
	}
	if g.sometimes(2) {
		w.services = append(w.services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	}
	for i := range 1 + g.r.IntN(9) {
		w.nodes = append(w.nodes, g.node(fmt.Sprint("n", i)))
	}
	for i := range g.r.IntN(20) {
		w.pods = append(w.pods, g.pod(fmt.Sprint("p", i), w.nodes[g.r.IntN(len(w.nodes))].Name))
	}
	return w
}

func (g *clusterGenerator) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if !g.sometimes(8) {
		n.Labels[corev1.LabelHostname] = name
	}
	if !g.sometimes(5) {
		n.Labels[corev1.LabelTopologyZone] = g.one("z1", "z2", "z3")
	}
	if g.sometimes(2) {
		n.Labels["disk"] = g.one("ssd", "hdd", "5", "17")
	}
	n.Spec.Unschedulable = g.sometimes(10)
	for range g.r.IntN(3) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: g.one("k", "l"), Value: g.one("", "v"),
			Effect: corev1.TaintEffect(g.one(string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectNoExecute), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectPreferNoSchedule))),
		})
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(g.one("0", "500m", "2", "4", "64")), corev1.ResourceMemory: resource.MustParse(g.one("0", "512Mi", "3Gi", "16Gi")),
		corev1.ResourcePods: resource.MustParse(g.one("1", "5", "110", "110")),
	}
	if g.sometimes(2) {
		n.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse(g.one("1Gi", "100Gi"))
	}
	if g.sometimes(3) {
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse(g.one("0", "1", "8"))
	}
	if g.sometimes(4) {
		n.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("1Gi")
	}
	if g.sometimes(2) {
		n.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"}
	}
	for range g.r.IntN(3) {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{g.one("web:1", "db:latest", "db@sha256:1")}, SizeBytes: int64(g.r.IntN(2000)) << 20})
	}
	return n
}

func (g *clusterGenerator) labels() map[string]string {
	all := map[string]string{}
	if !g.sometimes(5) {
		all["app"] = g.one("web", "db")
	}
	if g.sometimes(3) {
		all["tier"] = g.one("front", "back")
	}
	return all
}

func (g *clusterGenerator) selector() *metav1.LabelSelector {
	switch g.r.IntN(6) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"db"}}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": g.one("web", "db")}}
}

func (g *clusterGenerator) list() corev1.ResourceList {
	all := corev1.ResourceList{}
	if !g.sometimes(3) {
		all[corev1.ResourceCPU] = resource.MustParse(g.one("0", "50m", "100m", "700m", "3"))
	}
	if !g.sometimes(3) {
		all[corev1.ResourceMemory] = resource.MustParse(g.one("0", "64Mi", "300Mi", "2Gi"))
	}
	if g.sometimes(5) {
		all[corev1.ResourceEphemeralStorage] = resource.MustParse(g.one("10Mi", "2Gi"))
	}
	if g.sometimes(6) {
		all["example.com/gpu"] = resource.MustParse(g.one("0", "1", "2"))
	}
	if g.sometimes(10) {
		all["hugepages-2Mi"] = resource.MustParse("64Mi")
	}
	return all
}

func (g *clusterGenerator) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: g.one("web:1", "db", "db@sha256:1", "other:2")}
	c.Resources.Requests = g.list()
	if g.sometimes(4) {
		c.Ports = append(c.Ports, corev1.ContainerPort{
			ContainerPort: 80, HostPort: int32(8080 + g.r.IntN(2)), HostIP: g.one("", "0.0.0.0", "10.0.0.1", "10.0.0.2"), Protocol: corev1.Protocol(g.one("TCP", "UDP")),
		})
	}
	return c
}

func (g *clusterGenerator) pod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.one("default", "default", "other"), Name: name, UID: types.UID(name), Labels: g.labels()}}
	s := &p.Spec
	s.NodeName = node
	for i := range 1 + g.r.IntN(2) {
		s.Containers = append(s.Containers, g.container(fmt.Sprint("c", i)))
	}
	for i := range g.r.IntN(2) {
		c := g.container(fmt.Sprint("i", i))
		if g.sometimes(2) {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		s.InitContainers = append(s.InitContainers, c)
	}
	if g.sometimes(6) {
		s.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")}
	}
	if g.sometimes(6) {
		s.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m")}}
		if g.sometimes(2) {
			s.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
		}
	}
	for range g.r.IntN(3) {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{
			Key: g.one("", "k", "l"), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(g.one("", "NoSchedule", "NoExecute", "PreferNoSchedule")),
		})
	}
	if g.sometimes(8) {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})
	}
	if g.sometimes(6) {
		s.NodeSelector = map[string]string{"disk": g.one("ssd", "hdd")}
	}
	if g.sometimes(8) {
		s.HostNetwork, s.HostUsers = true, new(false)
	}
	if g.sometimes(3) {
		g.affinity(p)
	}
	if g.sometimes(3) {
		g.spread(p)
	}
	if node != "" && g.sometimes(10) {
		p.DeletionTimestamp = new(metav1.Now())
	}
	return p
}

func (g *clusterGenerator) affinity(p *corev1.Pod) {
	a := &corev1.Affinity{}
	p.Spec.Affinity = a
	if g.sometimes(2) {
		a.NodeAffinity = &corev1.NodeAffinity{}
		for range g.r.IntN(3) {
			a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: 1 + g.r.Int32N(100), Preference: g.nodeTerm()})
		}
		if g.sometimes(3) {
			a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
			for range 1 + g.r.IntN(2) {
				r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				r.NodeSelectorTerms = append(r.NodeSelectorTerms, g.nodeTerm())
			}
		}
	}
	if g.sometimes(2) {
		a.PodAffinity = &corev1.PodAffinity{}
		for range g.r.IntN(2) {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, g.podTerm())
		}
		for range g.r.IntN(3) {
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: 1 + g.r.Int32N(100), PodAffinityTerm: g.podTerm()})
		}
	}
	if g.sometimes(2) {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		for range g.r.IntN(2) {
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, g.podTerm())
		}
		for range g.r.IntN(3) {
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: 1 + g.r.Int32N(100), PodAffinityTerm: g.podTerm()})
		}
	}
}

func (g *clusterGenerator) nodeTerm() (t corev1.NodeSelectorTerm) {
	if g.sometimes(5) {
		t.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{g.one("n0", "n1", "n2", "none")}}}
	}
	for range 1 + g.r.IntN(2) {
		r := corev1.NodeSelectorRequirement{Key: g.one("disk", corev1.LabelTopologyZone), Operator: corev1.NodeSelectorOperator(g.one("In", "NotIn", "Exists", "DoesNotExist", "Gt"))}
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			r.Values = []string{g.one("ssd", "z1"), g.one("hdd", "z2")}
		case corev1.NodeSelectorOpGt:
			r.Values = []string{"6"}
		}
		t.MatchExpressions = append(t.MatchExpressions, r)
	}
	return t
}

func (g *clusterGenerator) podTerm() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{LabelSelector: g.selector(), TopologyKey: g.one(corev1.LabelHostname, corev1.LabelTopologyZone, "disk")}
	switch g.r.IntN(5) {
	case 0:
		t.Namespaces = []string{g.one("default", "other")}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": g.one("a", "b")}}
	}
	return t
}

func (g *clusterGenerator) spread(p *corev1.Pod) {
	for range 1 + g.r.IntN(2) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: 1 + g.r.Int32N(2), TopologyKey: g.one(corev1.LabelHostname, corev1.LabelTopologyZone, "disk"), LabelSelector: g.selector(),
			WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(g.one("DoNotSchedule", "ScheduleAnyway")),
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && g.sometimes(3) {
			c.MinDomains = new(1 + g.r.Int32N(4))
		}
		if g.sometimes(3) {
			c.NodeAffinityPolicy = new(corev1.NodeInclusionPolicy(g.one("Honor", "Ignore")))
		}
		if g.sometimes(3) {
			c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicy(g.one("Honor", "Ignore")))
		}
		if g.sometimes(4) {
			c.MatchLabelKeys = []string{"tier"}
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}
