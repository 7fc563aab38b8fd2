// Package outage lets simulated pods and nodes fail in a test.
//
//	outage.Pods(t, env, "default", "app=web").Fail(137)
//	outage.Nodes(t, env, "node-0").Stop()
//
// A failure happens at the time of the call: in a bubble, time.Sleep before it costs nothing. What
// follows is what Kubernetes does: containers are restarted with a back-off, pods of a node without
// heartbeats are evicted after minutes. The pods must run on simulated nodes (package simulated),
// and not be played by KWOK's Stages.
//
// The package writes annotations by the client of the Env, and fails the test on an error. It
// starts no goroutine.
package outage

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// A PodSet is some pods of a test.
type PodSet struct {
	t        testing.TB
	env      *kapoktest.Env
	selector string
	pods     []corev1.Pod
}

// Pods returns the pods of a namespace that exist now and have the labels of a selector, such as
// "app=web"; "" selects all. At least one must.
func Pods(t testing.TB, env *kapoktest.Env, namespace, selector string) *PodSet {
	t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		t.Fatalf("outage: selector %q: %v", selector, err)
	}
	var list corev1.PodList
	if err := env.Client().List(env.Context(), &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: parsed}); err != nil {
		t.Fatalf("outage: list pods: %v", err)
	}
	if len(list.Items) == 0 {
		t.Fatalf("outage: no pod in namespace %s has the labels %q", namespace, selector)
	}
	return &PodSet{t: t, env: env, selector: selector, pods: list.Items}
}

// First returns the first n of the pods, by name.
func (s *PodSet) First(n int) *PodSet {
	s.t.Helper()
	if n < 1 || n > len(s.pods) {
		s.t.Fatalf("outage: first %d of %d pods with the labels %q", n, len(s.pods), s.selector)
	}
	return &PodSet{t: s.t, env: s.env, selector: s.selector, pods: s.pods[:n]}
}

// Fail lets the running containers of the pods exit now, once, with a code between 0 and 255. They
// are started again as the restart policy of the pod says.
func (s *PodSet) Fail(code int) {
	s.t.Helper()
	if code < 0 || code > 255 {
		s.t.Fatalf("outage: exit code %d: must be between 0 and 255", code)
	}
	now := time.Now()
	s.change(func(status *corev1.ContainerStatus, behaviour map[string]any) {
		if running := status.State.Running; running != nil {
			behaviour["run"] = max(0, now.Sub(running.StartedAt.Time)).String()
			behaviour["exit"], behaviour["times"] = code, status.RestartCount+1
			delete(behaviour, "reason")
		}
	})
}

// Unready lets the containers of the pods no longer respond to their readiness probes, or be
// unready without one, until Ready.
func (s *PodSet) Unready() {
	s.t.Helper()
	s.change(func(_ *corev1.ContainerStatus, behaviour map[string]any) { behaviour["unready"] = true })
}

// Ready ends Unready.
func (s *PodSet) Ready() {
	s.t.Helper()
	s.change(func(_ *corev1.ContainerStatus, behaviour map[string]any) { delete(behaviour, "unready") })
}

// change changes the behaviour of the regular containers of each pod, in its annotation.
func (s *PodSet) change(with func(status *corev1.ContainerStatus, behaviour map[string]any)) {
	s.t.Helper()
	for i := range s.pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.pods[i].Namespace, Name: s.pods[i].Name}}
		s.env.Update(p, func() {
			text, err := changed(p, with)
			if err != nil {
				s.t.Fatalf("outage: pod %s: %v", p.Name, err)
			}
			if p.Annotations == nil {
				p.Annotations = map[string]string{}
			}
			p.Annotations[simulated.SimulationAnnotation] = text
		})
	}
}

// changed returns the changed annotation of a pod. An entry for all containers is kept: that of a
// container precedes it.
func changed(p *corev1.Pod, with func(status *corev1.ContainerStatus, behaviour map[string]any)) (string, error) {
	var annotation struct {
		Containers map[string]map[string]any `json:"containers"`
	}
	text, existed := p.Annotations[simulated.SimulationAnnotation]
	if err := yaml.Unmarshal([]byte(text), &annotation); err != nil {
		return "", fmt.Errorf("annotation %s: %w", simulated.SimulationAnnotation, err)
	}
	all := annotation.Containers
	if all == nil {
		all = map[string]map[string]any{}
	}
	for i := range p.Status.ContainerStatuses {
		status := &p.Status.ContainerStatuses[i]
		behaviour := maps.Clone(all[status.Name])
		if behaviour == nil {
			behaviour = map[string]any{}
		}
		if owner := metav1.GetControllerOfNoCopy(p); !existed && p.Spec.RestartPolicy != corev1.RestartPolicyAlways && (owner == nil || owner.Kind != "Job") {
			behaviour["run"] = "forever" // a pod without the annotation does not end by itself
		}
		with(status, behaviour)
		all[status.Name] = behaviour
	}
	annotation.Containers = all
	data, err := yaml.Marshal(annotation)
	return string(data), err
}

// A NodeSet is some nodes of a test.
type NodeSet struct {
	t     testing.TB
	env   *kapoktest.Env
	names []string
}

// Nodes returns simulated nodes by their names.
func Nodes(t testing.TB, env *kapoktest.Env, names ...string) *NodeSet {
	return &NodeSet{t, env, names}
}

// Stop lets the nodes fail, as if they were powered off or cut off from the network: they send no
// heartbeats, and their pods do not change, until Start.
func (s *NodeSet) Stop() {
	s.t.Helper()
	s.set(simulated.Down)
}

// Start ends Stop. Pods that were not evicted meanwhile run on.
func (s *NodeSet) Start() {
	s.t.Helper()
	s.set(simulated.Simulated)
}

// Flap stops and starts the nodes some times, and returns after the last of them. They are down for
// one time, and then up for another.
func (s *NodeSet) Flap(times int, down, up time.Duration) {
	s.t.Helper()
	for range times {
		s.Stop()
		time.Sleep(down)
		s.Start()
		time.Sleep(up)
	}
}

func (s *NodeSet) set(value string) {
	s.t.Helper()
	for _, name := range s.names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.env.Update(n, func() {
			if n.Annotations == nil {
				n.Annotations = map[string]string{}
			}
			n.Annotations[simulated.NodeAnnotation] = value
		})
	}
}
