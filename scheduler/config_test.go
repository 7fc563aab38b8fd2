package scheduler_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler"
	"github.com/kapok-dev/kapok/scheduler/place"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// TestProfiles checks two schedulers in one process: one fills nodes and never preempts, the other
// spreads pods. A pod of a third one gets no node.
func TestProfiles(t *testing.T) {
	packing := configv1.KubeSchedulerProfile{
		SchedulerName: new("packing"),
		Plugins: &configv1.Plugins{
			Score:      configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}, Enabled: []configv1.Plugin{{Name: "NodeResourcesFit"}}},
			PostFilter: configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}},
		},
		PluginConfig: []configv1.PluginConfig{{Name: "NodeResourcesFit", Args: runtime.RawExtension{
			Object: &configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{Type: configv1.MostAllocated}},
		}}},
	}
	spreading := configv1.KubeSchedulerProfile{SchedulerName: new("spreading")}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		configuration := &configv1.KubeSchedulerConfiguration{
			Profiles: []configv1.KubeSchedulerProfile{packing, spreading}, PodInitialBackoffSeconds: new(int64(60)), PodMaxBackoffSeconds: new(int64(60)),
		}
		if err := (scheduler.Options{Configuration: configuration}).Add(m); err != nil {
			t.Fatal(err)
		}
		env.Go(m.Start)
		env.Create(priorityClass("high", 1000))
		for i := range 4 {
			createNode(env, node(fmt.Sprint("n", i), "1"))
		}
		create := func(name, by, cpu, class string) *corev1.Pod {
			p := pod(name, cpu)
			p.Spec.SchedulerName, p.Spec.PriorityClassName = by, class
			env.Create(p)
			env.Settle()
			return p
		}
		nodesOf := func(by string) map[string]int {
			counts := map[string]int{}
			for i := range 4 {
				p := create(fmt.Sprint(by, "-", i), by, "200m", "")
				env.Get(p)
				counts[p.Spec.NodeName]++
			}
			return counts
		}
		if got := nodesOf("packing"); len(got) != 1 || got[""] > 0 {
			t.Errorf("the scheduler that packs uses the nodes %v, want one", got)
		}
		if got := nodesOf("spreading"); len(got) < 3 || got[""] > 0 {
			t.Errorf("the scheduler that spreads uses the nodes %v, want several", got)
		}
		other := create("other", "other", "100m", "")
		big := create("big", "packing", "1", "high")
		time.Sleep(30 * time.Minute) // less than events live
		env.Get(other)
		if other.Spec.NodeName != "" || len(other.Status.Conditions) > 0 {
			t.Errorf("a pod of another scheduler is on %q, with the conditions %v", other.Spec.NodeName, other.Status.Conditions)
		}
		env.Get(big)
		const want = "0/4 nodes are available: 4 Insufficient cpu."
		if c := big.Status.Conditions; big.Spec.NodeName != "" || len(c) != 1 || c[0].Message != want {
			t.Errorf("a pod whose scheduler never preempts is on %q, with the conditions %v", big.Spec.NodeName, c)
		}
		_, events := messages(t, env)
		var by []string
		for _, e := range events.Items {
			by = append(by, e.InvolvedObject.Name+" "+e.ReportingController)
		}
		for _, want := range []string{"packing-0 packing", "spreading-0 spreading", "big packing"} {
			if !slices.Contains(by, want) {
				t.Errorf("no event %q in %v", want, by)
			}
		}
	})
}

// TestValidate checks that a configuration excludes other options, and that errors name its fields.
func TestValidate(t *testing.T) {
	bad := &configv1.KubeSchedulerConfiguration{Parallelism: new(int32(-1))}
	for want, o := range map[string]scheduler.Options{
		"":                             {Configuration: &configv1.KubeSchedulerConfiguration{}},
		"Name and Profile must not be": {Name: "x", Profile: place.DefaultProfile(), Configuration: &configv1.KubeSchedulerConfiguration{}},
		"parallelism: Invalid value: -1: must be greater than 0": {Configuration: bad},
	} {
		err := o.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
