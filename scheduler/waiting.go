package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/scheduler/framework"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxPermit is the maximum time that a pod waits at Permit.
const maxPermit = 15 * time.Minute

// The errors that end the wait of a pod that was deleted, or whose node another pod gets.
var (
	errGone      = errors.New("the pod was deleted")
	errPreempted = errors.New("waiting on permit for pod: preempted")
)

// waitingPods are the pods that wait at Permit. It is safe for concurrent use.
type waitingPods struct {
	mu   sync.Mutex
	pods map[types.UID]*waitingPod
}

// A waitingPod implements framework.WaitingPod.
type waitingPod struct {
	pod   *corev1.Pod
	since time.Time
	ended chan struct{} // closed when err is set

	mu     sync.Mutex
	limits map[string]time.Duration // by the plugins that have not allowed the pod yet
	over   bool
	err    error // why the pod is not bound
}

// add adds a pod that waits for plugins, for each of them at most for a time.
func (w *waitingPods) add(p *corev1.Pod, limits map[string]time.Duration) *waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.UID]*waitingPod{}
	}
	waiting := &waitingPod{pod: p, since: time.Now(), ended: make(chan struct{}), limits: limits}
	w.pods[p.UID] = waiting
	return waiting
}

// get returns a waiting pod, nil if the pod does not wait.
func (w *waitingPods) get(uid types.UID) *waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid]
}

// all returns the waiting pods.
func (w *waitingPods) all() []*waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.pods))
}

// end ends the wait of a pod with an error. It reports whether the pod was waiting.
func (w *waitingPods) end(uid types.UID, err error) bool {
	p := w.get(uid)
	return p != nil && p.end(err)
}

// wait returns when all plugins have allowed a pod, or why it is not bound.
func (w *waitingPods) wait(ctx context.Context, p *waitingPod) error {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.pods, p.pod.UID)
	}()
	for {
		plugin, limit := p.next()
		timer := time.NewTimer(time.Until(p.since.Add(limit)))
		select {
		case <-p.ended:
			timer.Stop()
			return p.err
		case <-ctx.Done():
			timer.Stop()
			p.end(ctx.Err())
		case <-timer.C:
			if again, _ := p.next(); again == plugin {
				p.Reject(plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", limit, plugin))
			}
		}
	}
}

// next returns the plugin whose time limit is reached first.
func (p *waitingPod) next() (plugin string, limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.limits)) {
		if plugin == "" || p.limits[name] < limit {
			plugin, limit = name, p.limits[name]
		}
	}
	return plugin, limit
}

func (p *waitingPod) end(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.over, p.err = true, err
	close(p.ended)
	return true
}

// GetPod implements framework.WaitingPod.
func (p *waitingPod) GetPod() *corev1.Pod { return p.pod }

// GetPendingPlugins implements framework.WaitingPod.
func (p *waitingPod) GetPendingPlugins() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.limits))
}

// Allow implements framework.WaitingPod.
func (p *waitingPod) Allow(plugin string) {
	p.mu.Lock()
	delete(p.limits, plugin)
	allowed := len(p.limits) == 0
	p.mu.Unlock()
	if allowed {
		p.end(nil)
	}
}

// Reject implements framework.WaitingPod.
func (p *waitingPod) Reject(plugin, reason string) bool {
	return p.end(rejectedBy(plugin, []string{reason}))
}

var _ framework.WaitingPod = (*waitingPod)(nil)
