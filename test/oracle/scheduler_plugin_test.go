package oracle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// verdictsFile has what plugins return, and the conditions that pods have therefore in
// kube-scheduler.
const verdictsFile = "../../scheduler/testdata/verdicts.txt"

// A verdict is what a plugin returns: codes by its methods, the score of all nodes, and the nodes
// of PreFilter.
type verdict map[string]string

func readVerdict(text string) verdict {
	v := verdict{}
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		v[name] = value
	}
	return v
}

// TestPluginVerdicts checks the recorded conditions of pods that a plugin rejects or fails at each
// extension point. TestPluginVerdicts of package scheduler compares Kapok with them.
func TestPluginVerdicts(t *testing.T) {
	data, err := os.ReadFile(verdictsFile)
	if err != nil {
		t.Fatal(err)
	}
	var recorded strings.Builder
	for line := range strings.Lines(string(data)) {
		text, _, is := strings.Cut(strings.TrimSpace(line), ": ")
		if text = strings.TrimSuffix(text, ":"); !is && text == "" || strings.HasPrefix(line, "#") {
			recorded.WriteString(line)
			continue
		}
		fmt.Fprintf(&recorded, "%s: %s\n", text, conditionFor(t, readVerdict(text)))
	}
	if record.Value.String() == "true" {
		if err := os.WriteFile(verdictsFile, []byte(recorded.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if recorded.String() != string(data) {
		t.Errorf("%s has\n%s\nkube-scheduler\n%s", verdictsFile, data, recorded.String())
	}
}

// conditionFor returns the condition of a pod that kube-scheduler does not schedule.
func conditionFor(t *testing.T, v verdict) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := fake.NewClientset()
	cfg, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Profiles[0].Plugins.MultiPoint.Enabled = append(cfg.Profiles[0].Plugins.MultiPoint.Enabled, config.Plugin{Name: "Probe"})
	factory := scheduler.NewInformerFactory(client, 0, nil)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	s, err := scheduler.New(ctx, client, factory, nil, profile.NewRecorderFactory(broadcaster), scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{"Probe": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &probe{v}, nil }}))
	if err != nil {
		t.Fatal(err)
	}
	createForPlugin(t, client)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	condition := awaitCondition(t, client)
	cancel()
	<-ended
	factory.Shutdown()
	return condition
}

// createForPlugin creates two nodes and a pod.
func createForPlugin(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"n0", "n1"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10")}
		created, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		created.Spec.Taints = nil // it is ready
		if created, err = client.CoreV1().Nodes().Update(ctx, created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		created.Status = n.Status
		if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
	p.Spec = corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: "web:1"}}, SchedulingGates: []corev1.PodSchedulingGate{{Name: "nodes"}}}
	created, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Spec.SchedulingGates = nil // both nodes are there
	if _, err := client.CoreV1().Pods("default").Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitCondition returns the condition of the pod when a scheduler has written it.
func awaitCondition(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		p, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
				return c.Reason + ": " + c.Message
			}
		}
		if p.Spec.NodeName != "" {
			return "on " + p.Spec.NodeName
		}
	}
	t.Fatal("the pod has no condition")
	return ""
}

// A probe is a plugin.
type probe struct{ verdict }

func (p *probe) status(method string) *fwk.Status {
	codes := map[string]fwk.Code{"": fwk.Success, "Success": fwk.Success, "Unschedulable": fwk.Unschedulable, "UnschedulableAndUnresolvable": fwk.UnschedulableAndUnresolvable}
	reasons := []string{method + " says no", "not today"}
	if p.verdict[method] == "Error" {
		return fwk.AsStatus(errors.New(reasons[0]))
	}
	return fwk.NewStatus(codes[p.verdict[method]], reasons...)
}

func (*probe) Name() string { return "Probe" }

func (p *probe) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	result := &fwk.PreFilterResult{}
	if names, limits := p.verdict["nodes"]; limits {
		result.NodeNames = sets.New(strings.FieldsFunc(names, func(r rune) bool { return r == ',' })...)
	}
	return result, p.status("PreFilter")
}

func (*probe) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (p *probe) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return p.status("Filter")
}

func (p *probe) PostFilter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.verdict["PostFilter"] == "" {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, p.status("PostFilter")
}

func (p *probe) PreScore(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.status("PreScore")
}

func (p *probe) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	score, _ := strconv.ParseInt(p.verdict["score"], 10, 64)
	return score, p.status("Score")
}

func (p *probe) ScoreExtensions() fwk.ScoreExtensions { return p }

func (p *probe) NormalizeScore(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeScoreList) *fwk.Status {
	return p.status("NormalizeScore")
}

func (p *probe) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return p.status("Reserve")
}

func (*probe) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

func (p *probe) Permit(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.Status, time.Duration) {
	return p.status("Permit"), 0
}

func (*probe) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (p *probe) PreBind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return p.status("PreBind")
}
