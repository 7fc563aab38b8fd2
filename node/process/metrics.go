package process

import (
	"context"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/metrics"
	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MetricsVersion is the group version that Metrics serves.
var MetricsVersion = metrics.Version

// Metrics serves metrics.k8s.io/v1beta1 for nodes and their pods, as metrics-server does for
// kubelets: kubectl top and HorizontalPodAutoscalers read it. It is a handler for
// kapok.Options.Aggregation.Handlers, and its zero value answers once it is in the Options of a
// Node that runs. Nodes of package simulated may share it.
type Metrics = metrics.Handler

// sampleDelay is the time after the start of a container after which it is measured.
const sampleDelay = time.Second

// A sampler measures containers in intervals. It is a Runnable.
type sampler struct {
	runtime *proc.Runtime
	started chan struct{} // has an element when a container has started

	mu   sync.Mutex
	last map[proc.ID]sample
}

// A sample is what a container used at a time, and its rate since the sample before.
type sample struct {
	proc.Usage
	at   time.Time
	rate float64 // processors in use
}

// addMetrics adds the sampler to a manager.
func (p *pods) addMetrics(m manager.Manager) error {
	if p.options.Metrics == nil {
		return nil
	}
	s := &sampler{runtime: p.runtime, started: p.started}
	if err := m.Add(s); err != nil {
		return err
	}
	return p.options.Metrics.Add(m, metrics.Source{Name: "process", Reader: m.GetClient(), Runs: p.isOwn, Usage: func(pod *corev1.Pod, _ time.Time) []metrics.Container {
		return s.usage(pod, p.runtime.Runs(string(pod.UID)))
	}})
}

// Start implements manager.Runnable.
func (s *sampler) Start(ctx context.Context) error {
	for {
		s.sample(s.runtime.Usage(), time.Now())
		timer := time.NewTimer(metrics.Window)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.started:
			timer.Stop()
			pause(ctx, sampleDelay)
		case <-timer.C:
		}
	}
}

// sample notes what containers use. The rate of a new container is that since its start, as
// metrics-server has it. That of others changes once in half a window at most.
func (s *sampler) sample(all map[proc.ID]proc.Usage, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[proc.ID]sample{}
	for id, u := range all {
		before, known := s.last[id]
		if known && now.Sub(before.at) < metrics.Window/2 {
			next[id] = before
			continue
		}
		used, since := u.CPU, u.Started
		if known {
			used, since = u.CPU-before.CPU, before.at
		}
		n := sample{Usage: u, at: now}
		if took := now.Sub(since); took > 0 {
			n.rate = max(0, used.Seconds()) / took.Seconds() // less than before if a process has ended without a parent that waits
		}
		next[id] = n
	}
	s.last = next
}

// usage returns what the containers of a pod use that have been measured, in the order of the spec.
func (s *sampler) usage(pod *corev1.Pod, runs []proc.Run) []metrics.Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []metrics.Container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for j := range runs {
				u, known := s.last[runs[j].ID]
				if runs[j].ID.Container != list[i].Name || runs[j].Exit != nil || !known {
					continue
				}
				all = append(all, metrics.Container{Name: list[i].Name, Usage: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(u.rate*1e9), resource.Nano),
					corev1.ResourceMemory: *resource.NewQuantity(u.Memory, resource.BinarySI),
				}})
			}
		}
	}
	return all
}
