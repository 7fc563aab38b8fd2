package nodelifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"

	corev1 "k8s.io/api/core/v1"
)

// pause is the time between a change of a node and the consequences for its zone. Concurrent
// changes of other nodes are known by then, for example that all of them are lost. Kubernetes'
// controller handles the queues of the zones at this interval.
const pause = 100 * time.Millisecond

// A zone counts nodes, and limits the rate at which they get taints NoExecute. At most one node is
// ahead of the rate.
type zone struct {
	name           string
	ready, unready int
	waiting        []string // nodes, in the order in which they became unready
	rate           float64
	next           time.Time // when the next node may get a taint, if the rate is positive
}

func newZone(name string, rate float64, now time.Time) *zone {
	return &zone{name: name, rate: rate, next: now}
}

// full reports whether the zone has nodes that count, none of which is ready.
func (z *zone) full() bool { return z.ready == 0 && z.unready > 0 }

// limit sets the rate, and reports whether it has changed. If a node has to wait by the old rate,
// one has to wait by the new rate, from now.
func (z *zone) limit(rate float64, now time.Time) bool {
	if z.rate == rate {
		return false
	}
	waits := z.rate <= 0 || now.Before(z.next)
	z.rate, z.next = rate, now
	if waits && rate > 0 {
		z.next = now.Add(period(rate))
	}
	return true
}

func period(rate float64) time.Duration { return time.Duration(float64(time.Second) / rate) }

func (z *zone) remove(name string) {
	z.waiting = slices.DeleteFunc(z.waiting, func(w string) bool { return w == name })
}

// wait puts a node into the queue of its zone, and returns the zone if it is new there.
func (n *nodes) wait(name string) (zone string, added bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.nodes[name]
	if k == nil {
		return "", false
	}
	z := n.zones[k.zone]
	if z == nil || slices.Contains(z.waiting, name) {
		return "", false
	}
	z.waiting = append(z.waiting, name)
	return k.zone, true
}

// unwait takes a node out of the queue of its zone.
func (n *nodes) unwait(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.nodes[name]; k != nil {
		n.dropLocked(k.zone, name)
	}
}

// drop takes a node out of the queue of a zone.
func (n *nodes) drop(zone, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropLocked(zone, name)
}

func (n *nodes) dropLocked(zone, name string) {
	if z := n.zones[zone]; z != nil {
		z.remove(name)
	}
}

// first returns the node that is next to get a taint in a zone, and how long it has to wait; "" if
// there is none, or if no node may get one.
func (n *nodes) first(zone string) (name string, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	z := n.zones[zone]
	if z == nil || len(z.waiting) == 0 || z.rate <= 0 {
		return "", 0
	}
	return z.waiting[0], time.Until(z.next)
}

// take counts a node that is going to get a taint, unless the rate has been reduced in between.
func (n *nodes) take(zone string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	z := n.zones[zone]
	now := time.Now()
	if z == nil || z.rate <= 0 || now.Before(z.next) {
		return false
	}
	z.next = now.Add(period(z.rate))
	return true
}

// apply adds the requests that follow from a change.
func (r *reconciler) apply(c change) {
	for _, zone := range c.wake {
		r.queue.Add(zoneRequest(zone))
	}
	for _, node := range c.all {
		r.queue.Add(nodeRequest(node))
	}
}

// zone gives nodes of a zone their taints, at its rate.
func (r *reconciler) zone(ctx context.Context, name string) (controller.Result, error) {
	r.apply(r.nodes.judge())
	for {
		node, wait := r.nodes.first(name)
		if node == "" {
			return controller.Result{}, nil
		}
		if wait > 0 {
			return controller.Result{RequeueAfter: wait}, nil
		}
		var n corev1.Node
		if err := r.client.Get(ctx, client.ObjectKey{Name: node}, &n, client.UnsafeDisableDeepCopy); err != nil {
			if client.IgnoreNotFound(err) != nil {
				return controller.Result{}, err
			}
			r.nodes.drop(name, node)
			continue
		}
		want, other := evicting(condition(&n, corev1.NodeReady))
		if want == "" || has(n.Spec.Taints, want, corev1.TaintEffectNoExecute) {
			r.nodes.drop(name, node)
			continue
		}
		if !r.nodes.take(name) {
			continue
		}
		if err := r.swap(ctx, &n, want, other); err != nil {
			return controller.Result{}, client.IgnoreNotFound(err)
		}
		r.nodes.metrics.evictions.WithLabelValues(name).Inc()
		r.nodes.drop(name, node)
	}
}

// evicting returns the key of the taint NoExecute that follows from the condition Ready, and the
// one that does not; "" if there is none.
func evicting(ready *corev1.NodeCondition) (want, other string) {
	switch {
	case ready == nil:
	case ready.Status == corev1.ConditionFalse:
		return corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	case ready.Status == corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady
	}
	return "", ""
}
