package scheduler_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler"
	"github.com/kapok-dev/kapok/scheduler/framework"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Annotated is a plugin that rejects nodes without an annotation. It registers no events.
type Annotated struct{ calls *atomic.Int64 }

func (Annotated) Name() string { return "Annotated" }

func (a Annotated) Filter(_ context.Context, _ *framework.CycleState, _ *corev1.Pod, n framework.NodeInfo) *framework.Status {
	a.calls.Add(1)
	if n.Node().Annotations["open"] == "" {
		return framework.NewStatus(framework.Unschedulable, "node(s) were not open")
	}
	return nil
}

// runPlugins runs a scheduler with plugins.
func runPlugins(t *testing.T, env *kapoktest.Env, all ...framework.Plugin) error {
	t.Helper()
	m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	factories := map[string]framework.Factory{}
	for _, p := range all {
		factories[p.Name()] = func(runtime.RawExtension, framework.Handle) (framework.Plugin, error) { return p, nil }
	}
	if err := (scheduler.Options{Plugins: factories}).Add(m); err != nil {
		return err
	}
	env.Go(m.Start)
	return nil
}

// TestPluginWithoutEvents checks that pods which a plugin without registered events has rejected
// are retried after an update of a node that no other plugin looks at, not after heartbeats, and
// that they do not keep the scheduler busy.
func TestPluginWithoutEvents(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		var calls atomic.Int64
		if err := runPlugins(t, env, Annotated{&calls}); err != nil {
			t.Fatal(err)
		}
		n := node("a", "1")
		createNode(env, n)
		waits, other := pod("waits", "100m"), pod("other", "100m")
		env.Create(waits, other)
		time.Sleep(10 * time.Minute)
		before, from := calls.Load(), time.Now()
		time.Sleep(time.Hour)
		if more := calls.Load() - before; more > 2*2*13 { // twice for each pod, every five minutes
			t.Errorf("%d calls in an hour without events", more)
		}
		for _, r := range env.Writes() {
			if r.Time.After(from) && strings.Contains(r.Path, "/pods/") {
				t.Errorf("a write at rest: %s %s", r.Method, r.Path)
			}
		}
		env.UpdateStatus(n, func() {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		})
		env.Settle()
		before = calls.Load()
		env.UpdateStatus(n, func() { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Second)) })
		time.Sleep(time.Minute)
		if more := calls.Load() - before; more > 4 {
			t.Errorf("%d calls after a heartbeat", more)
		}
		env.Update(n, func() { metav1.SetMetaDataAnnotation(&n.ObjectMeta, "open", "yes") })
		time.Sleep(time.Minute)
		for _, p := range []*corev1.Pod{waits, other} {
			if got := state(env, p); got != "a" {
				t.Errorf("pod %s has %q, want a", p.Name, got)
			}
		}
	})
}

// licensed is a plugin that rejects pods until a custom resource allows them.
type licensed struct {
	kind    *unstructured.Unstructured
	allowed map[string]bool
}

func (*licensed) Name() string { return "Licensed" }

func (l *licensed) PreFilter(_ context.Context, _ *framework.CycleState, p *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if !l.allowed[p.Name] {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "no license")
	}
	return nil, nil
}

func (l *licensed) EventsToRegister() []framework.ClusterEventWithHint {
	return []framework.ClusterEventWithHint{{Resource: l.kind, Actions: framework.Add | framework.Update, QueueingHint: func(p *corev1.Pod, _, after client.Object) framework.QueueingHint {
		if after.GetName() != p.Name {
			return framework.QueueSkip
		}
		l.allowed[p.Name] = true
		return framework.Queue
	}}}
}

// TestPluginCustomResource checks events of a custom resource, and that one which the server does
// not have ends the scheduler with an error.
func TestPluginCustomResource(t *testing.T) {
	license := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("example.com/v1")
		u.SetKind("License")
		u.SetNamespace("default")
		u.SetName(name)
		return u
	}
	crd := kapoktest.YAML(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: licenses.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: License, plural: licenses}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		if err := runPlugins(t, env, &licensed{license(""), map[string]bool{}}); err != nil {
			t.Fatal(err)
		}
		createNode(env, node("a", "1"))
		p := pod("p", "100m")
		env.Create(p)
		env.Settle()
		if got := state(env, p); !strings.HasPrefix(got, "Unschedulable: 0/1 nodes are available: no license.") {
			t.Errorf("the pod has %q", got)
		}
		env.Create(license("p"))
		env.Settle()
		if got := state(env, p); got != "a" {
			t.Errorf("the pod has %q, want a", got)
		}
	}, crd)
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		m, err := manager.New(env.Config(), manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		o := scheduler.Options{Plugins: map[string]framework.Factory{"Licensed": func(runtime.RawExtension, framework.Handle) (framework.Plugin, error) {
			return &licensed{license(""), nil}, nil
		}}}
		if err := o.Add(m); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(env.Context(), time.Minute)
		defer cancel()
		if err := m.Start(ctx); err == nil || !strings.Contains(err.Error(), `events of plugin Licensed: no matches for kind "License"`) {
			t.Errorf("error %v", err)
		}
	})
}
