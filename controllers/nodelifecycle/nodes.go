package nodelifecycle

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/topology"
)

// excluded is the label of nodes that do not count in their zones.
const excluded = "node.kubernetes.io/exclude-disruption"

// nodes is the state of nodes and zones. It depends only on the calls of its methods and the clock.
type nodes struct {
	options Options
	metrics metrics
	started atomic.Bool

	mu    sync.Mutex
	nodes map[string]*node
	zones map[string]*zone
	// full is the number of zones with nodes that count, none of which is ready.
	full, counted int
	changed       bool // counts, since the rates were set
	lost          bool // all zones are full: the state of which the rates of the zones are a consequence
}

// A node is the state of a node.
type node struct {
	uid        types.UID
	registered bool
	cleared    bool                  // its taints NoExecute of an earlier time have been removed
	probe      time.Time             // of the last heartbeat, by the clock of this process
	last       *corev1.NodeCondition // the condition Ready when it was posted last
	lease      *lease
	zone       string
	counts     bool // in its zone
	wasReady   bool // as it counts
	retry      bool // its pods could not be marked
}

// A lease is the last one that was seen.
type lease struct{ renewed *metav1.MicroTime }

func (n *nodes) init(o Options, m metrics) {
	n.options, n.metrics, n.nodes, n.zones = o, m, map[string]*node{}, map[string]*zone{}
}

// start counts nodes before the first of them is reconciled.
func (n *nodes) start(all []corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started.Load() {
		return
	}
	for i := range all {
		n.countLocked(n.nodeLocked(&all[i]), &all[i])
	}
	n.lost = n.allLocked()
	for _, z := range n.zones {
		z.limit(n.rateLocked(z), time.Now())
	}
	n.started.Store(true)
}

// nodeLocked returns the state of a node, which may be new.
func (n *nodes) nodeLocked(of *corev1.Node) *node {
	known := n.nodes[of.Name]
	if known == nil {
		known = &node{uid: of.UID}
		n.nodes[of.Name] = known
	}
	return known
}

// renewed notes the renewal of a Lease.
func (n *nodes) renewed(name string, at *metav1.MicroTime) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.nodes[name]; known != nil {
		known.renewed(at)
	}
}

func (k *node) renewed(at *metav1.MicroTime) {
	if k.lease == nil || k.lease.renewed.Before(at) {
		k.lease, k.probe = &lease{at}, time.Now()
	}
}

// ready returns the status of the condition Ready as a node has posted it last; "" if it is
// unknown.
func (n *nodes) ready(name string) corev1.ConditionStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.nodes[name]; known != nil && known.last != nil {
		return known.last.Status
	}
	return ""
}

// posted notes the status of a node, and returns the end of its grace period.
func (n *nodes) posted(of *corev1.Node) (deadline time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.nodeLocked(of)
	ready := condition(of, corev1.NodeReady)
	switch {
	case ready == nil && k.last == nil:
		if k.probe.IsZero() {
			k.probe = of.CreationTimestamp.Time
		}
	case ready == nil || k.last == nil || !k.last.LastHeartbeatTime.Equal(&ready.LastHeartbeatTime):
		k.probe, k.last = time.Now(), ready.DeepCopy()
	}
	if ready == nil {
		return k.probe.Add(n.options.NodeStartupGracePeriod)
	}
	return k.probe.Add(n.options.NodeMonitorGracePeriod)
}

// wrote notes a condition that this controller has written, which is no heartbeat.
func (n *nodes) wrote(name string, ready *corev1.NodeCondition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.nodes[name]; k != nil {
		k.last = ready.DeepCopy()
	}
}

// condition returns a condition of a node, or nil.
func condition(n *corev1.Node, of corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == of })
	if i < 0 {
		return nil
	}
	return &n.Status.Conditions[i]
}

// change is the consequence of a change in the counts of zones.
type change struct {
	wake []string // zones whose nodes may get taints
	all  []string // nodes to reconcile
}

// count counts a node in its zone, and reports whether that has changed the count.
func (n *nodes) count(of *corev1.Node) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed = n.countLocked(n.nodeLocked(of), of)
	n.changed = n.changed || changed
	return changed
}

// countLocked reports whether the count of a zone has changed.
func (n *nodes) countLocked(k *node, of *corev1.Node) (changed bool) {
	zone := topology.GetZoneKey(of)
	_, skip := of.Labels[excluded]
	ready := condition(of, corev1.NodeReady)
	isReady := ready != nil && ready.Status == corev1.ConditionTrue
	if n.zones[zone] == nil {
		n.zones[zone] = newZone(zone, n.options.NodeEvictionRate, time.Now())
	}
	if k.zone != zone {
		changed = k.counts
		n.leaveLocked(k, of.Name)
		k.zone = zone
	}
	if skip {
		if k.counts {
			n.addLocked(n.zones[zone], k.wasReady, -1)
			k.counts, changed = false, true
		}
		return changed
	}
	if k.counts && k.wasReady == isReady {
		return changed
	}
	if k.counts {
		n.addLocked(n.zones[zone], k.wasReady, -1)
	}
	n.addLocked(n.zones[zone], isReady, 1)
	k.counts, k.wasReady = true, isReady
	return true
}

// leaveLocked takes a node out of its zone.
func (n *nodes) leaveLocked(k *node, name string) {
	z := n.zones[k.zone]
	if z == nil {
		return
	}
	if k.counts {
		n.addLocked(z, k.wasReady, -1)
	}
	k.counts = false
	z.remove(name)
}

// addLocked changes the count of a zone, and those of zones.
func (n *nodes) addLocked(z *zone, ready bool, by int) {
	if z.ready+z.unready > 0 {
		n.counted--
	}
	if z.full() {
		n.full--
	}
	if ready {
		z.ready += by
	} else {
		z.unready += by
	}
	if z.ready+z.unready > 0 {
		n.counted++
	}
	if z.full() {
		n.full++
	}
	n.metrics.zone(z.name, z.ready, z.unready)
}

// allLocked reports whether no node of any zone is ready.
func (n *nodes) allLocked() bool { return n.counted > 0 && n.full == n.counted }

// judge sets the rates of the zones, if their counts have changed. It costs what the number of
// zones is, and that of nodes if all zones begin or cease to be lost.
func (n *nodes) judge() (c change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.changed {
		return c
	}
	n.changed = false
	if all := n.allLocked(); n.counted > 0 && all != n.lost {
		n.lost = all
		for name, k := range n.nodes {
			c.all = append(c.all, name)
			if !all {
				k.probe = time.Now() // the node had no way to send a heartbeat
			}
		}
	}
	for name, z := range n.zones {
		if z.limit(n.rateLocked(z), time.Now()) && len(z.waiting) > 0 {
			c.wake = append(c.wake, name)
		}
	}
	return c
}

// rateLocked returns the rate of a zone: the number of its nodes that get a taint in a second.
func (n *nodes) rateLocked(z *zone) float64 {
	size := z.ready + z.unready
	switch {
	case n.lost:
		return 0
	case z.ready > 0 && z.unready > 2 && float64(z.unready)/float64(size) >= n.options.UnhealthyZoneThreshold:
		if size <= n.options.LargeClusterSizeThreshold {
			return 0
		}
		return n.options.SecondaryNodeEvictionRate
	}
	return n.options.NodeEvictionRate
}

// forget forgets a node, and returns its uid and whether it was registered.
func (n *nodes) forget(name string) (uid types.UID, registered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.nodes[name]
	if k == nil {
		return "", false
	}
	n.leaveLocked(k, name)
	delete(n.nodes, name)
	if z := n.zones[k.zone]; z != nil && !n.usedLocked(k.zone) {
		delete(n.zones, k.zone)
	}
	n.changed = true
	return k.uid, k.registered
}

// usedLocked reports whether a zone has nodes. Those that do not count are not counted.
func (n *nodes) usedLocked(name string) bool {
	z := n.zones[name]
	if z.ready+z.unready > 0 {
		return true
	}
	for _, k := range n.nodes {
		if k.zone == name {
			return true
		}
	}
	return false
}

// register reports whether a node is new, and whether its taints NoExecute of an earlier time are
// still to be removed.
func (n *nodes) register(of *corev1.Node) (isNew, clear bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.nodeLocked(of)
	isNew = !k.registered
	k.registered = true
	return isNew, !k.cleared
}

// cleared notes that the taints NoExecute of an earlier time have been removed.
func (n *nodes) cleared(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.nodes[name]; k != nil {
		k.cleared = true
	}
}

// leased reports whether a Lease of a node has been seen.
func (n *nodes) leased(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.nodes[name]
	return k != nil && k.lease != nil
}

// known returns the uid of the node that is known by a name.
func (n *nodes) known(name string) types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.nodes[name]; k != nil {
		return k.uid
	}
	return ""
}

// setRetry notes whether the pods of a node are still to be marked; retries reports it.
func (n *nodes) setRetry(name string, retry bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.nodes[name]; k != nil {
		k.retry = retry
	}
}

func (n *nodes) retries(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.nodes[name]
	return k != nil && k.retry
}

// allLost reports whether no node of any zone is ready.
func (n *nodes) allLost() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}
