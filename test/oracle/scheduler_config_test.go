package oracle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ours "github.com/kapok-dev/kapok/scheduler/config"
	"github.com/kapok-dev/kapok/scheduler/place"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestPlaceConfigured is TestPlace with random configurations, which both read from the same file:
// plugin sets, weights and arguments must have the same effect.
func TestPlaceConfigured(t *testing.T) {
	seed := seeds.Of(t)
	metrics.Register()
	seen := map[string]int{}
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	for i := range *placeClusters {
		g := &clusterGenerator{rand.New(rand.NewPCG(seed, uint64(i)))}
		data := g.configuration(t)
		theirs, profile := readBoth(t, file, data)
		w := g.world()
		c := place.NewCluster(1)
		w.tell(c)
		for range 4 {
			p := g.pod("new", "")
			want, got := newConfiguredPlacer(t, w, theirs).judge(t, p), judgeBy(c, p, profile)
			if want != got {
				t.Fatalf("cluster %d: %s%s\nkube-scheduler:\n%s\nkapok:\n%s", i, describe(w, p), data, want, got)
			}
			for _, word := range []string{"NodeResourcesFit=", "NodeResourcesBalancedAllocation=", "NodeAffinity=", "InterPodAffinity=", "PodTopologySpread=", "scheduler-enforced", "topology spread constraints", "Insufficient example.com"} {
				seen[word] += strings.Count(got, word)
			}
			w.add(g, c)
		}
	}
	t.Log(seen)
	for word, n := range seen {
		if n < 3 {
			t.Errorf("%d cases of %q: the clusters are not various", n, word)
		}
	}
}

// readBoth returns a configuration as kube-scheduler and Kapok read it.
func readBoth(t *testing.T, file string, data []byte) (*config.KubeSchedulerConfiguration, *place.Profile) {
	t.Helper()
	object, version, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		t.Fatalf("kube-scheduler: %v\n%s", err, data)
	}
	theirs := object.(*config.KubeSchedulerConfiguration)
	theirs.APIVersion = version.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(theirs); err != nil {
		t.Fatalf("kube-scheduler: %v\n%s", err, data)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ours.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := ours.Compile(read)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return theirs, compiled.Profiles[corev1.DefaultSchedulerName]
}

// configuration returns a random configuration in JSON.
func (g *clusterGenerator) configuration(t *testing.T) []byte {
	c := configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{}}}
	c.APIVersion, c.Kind = configv1.SchemeGroupVersion.String(), "KubeSchedulerConfiguration"
	p := &c.Profiles[0]
	p.Plugins = &configv1.Plugins{MultiPoint: g.pluginSet(3), Score: g.pluginSet(3)}
	// In kube-scheduler, a plugin that is enabled for score alone fails: it has not run at preScore.
	p.Plugins.Score.Enabled = slices.DeleteFunc(p.Plugins.Score.Enabled, func(one configv1.Plugin) bool {
		of := func(other configv1.Plugin) bool { return other.Name == one.Name }
		return slices.ContainsFunc(p.Plugins.MultiPoint.Disabled, of) && !slices.ContainsFunc(p.Plugins.MultiPoint.Enabled, of)
	})
	if g.sometimes(4) {
		p.Plugins.Score.Disabled = []configv1.Plugin{{Name: "*"}}
	}
	for range g.r.IntN(3) {
		p.Plugins.Filter.Disabled = append(p.Plugins.Filter.Disabled, configv1.Plugin{Name: g.one("NodeResourcesFit", "InterPodAffinity", "PodTopologySpread", "TaintToleration", "NodeAffinity", "NodePorts")})
	}
	for name, args := range map[string]any{
		"NodeResourcesFit": g.fitArgs(), "NodeResourcesBalancedAllocation": g.balancedArgs(), "NodeAffinity": g.nodeAffinityArgs(),
		"InterPodAffinity":  &configv1.InterPodAffinityArgs{HardPodAffinityWeight: new(g.r.Int32N(101)), IgnorePreferredTermsOfExistingPods: g.sometimes(2)},
		"PodTopologySpread": g.spreadArgs(),
	} {
		if g.sometimes(4) {
			continue
		}
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		p.PluginConfig = append(p.PluginConfig, configv1.PluginConfig{Name: name, Args: runtime.RawExtension{Raw: raw}})
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// pluginSet disables and enables up to n plugins with scores.
func (g *clusterGenerator) pluginSet(n int) (set configv1.PluginSet) {
	names := []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity", "InterPodAffinity", "PodTopologySpread", "TaintToleration", "ImageLocality"}
	g.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:g.r.IntN(n)] {
		set.Disabled = append(set.Disabled, configv1.Plugin{Name: name})
		if g.sometimes(2) { // it moves to the end
			set.Enabled = append(set.Enabled, configv1.Plugin{Name: name, Weight: new(1 + g.r.Int32N(9))})
		}
	}
	for _, name := range names[n : n+g.r.IntN(n)] {
		one := configv1.Plugin{Name: name}
		if !g.sometimes(3) {
			one.Weight = new(1 + g.r.Int32N(9))
		}
		set.Enabled = append(set.Enabled, one)
	}
	return set
}

// resources returns random resources for scores, without extended ones: kube-scheduler's plugins
// ask its manager of dynamic resources about these, which is not there.
func (g *clusterGenerator) resources(weights bool) (all []configv1.ResourceSpec) {
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "pods"} {
		if g.sometimes(2) {
			one := configv1.ResourceSpec{Name: name}
			if weights && !g.sometimes(4) {
				one.Weight = 1 + g.r.Int64N(100)
			}
			all = append(all, one)
		}
	}
	return all
}

func (g *clusterGenerator) fitArgs() *configv1.NodeResourcesFitArgs {
	args := &configv1.NodeResourcesFitArgs{}
	if g.sometimes(3) {
		args.IgnoredResources = []string{"example.com/gpu"}
	}
	if g.sometimes(3) {
		args.IgnoredResourceGroups = []string{g.one("example.com", "other.example.com")}
	}
	s := &configv1.ScoringStrategy{Type: configv1.ScoringStrategyType(g.one("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")), Resources: g.resources(true)}
	if s.Type == configv1.RequestedToCapacityRatio {
		s.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{}
		for at := g.r.Int32N(40); at <= 100; at += 1 + g.r.Int32N(60) {
			s.RequestedToCapacityRatio.Shape = append(s.RequestedToCapacityRatio.Shape, configv1.UtilizationShapePoint{Utilization: at, Score: g.r.Int32N(11)})
		}
	}
	if !g.sometimes(5) {
		args.ScoringStrategy = s
	}
	return args
}

func (g *clusterGenerator) balancedArgs() *configv1.NodeResourcesBalancedAllocationArgs {
	return &configv1.NodeResourcesBalancedAllocationArgs{Resources: g.resources(false)}
}

func (g *clusterGenerator) nodeAffinityArgs() *configv1.NodeAffinityArgs {
	p := &corev1.Pod{}
	for p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		g.affinity(p)
	}
	return &configv1.NodeAffinityArgs{AddedAffinity: p.Spec.Affinity.NodeAffinity}
}

func (g *clusterGenerator) spreadArgs() *configv1.PodTopologySpreadArgs {
	if g.sometimes(4) {
		return &configv1.PodTopologySpreadArgs{}
	}
	args := &configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting}
	p, seen := &corev1.Pod{}, map[string]bool{}
	g.spread(p)
	for _, c := range p.Spec.TopologySpreadConstraints {
		c.LabelSelector, c.MatchLabelKeys = nil, nil
		if key := fmt.Sprint(c.TopologyKey, c.WhenUnsatisfiable); !seen[key] {
			seen[key] = true
			args.DefaultConstraints = append(args.DefaultConstraints, c)
		}
	}
	return args
}
