// Package podip assigns addresses to the pods of nodes without containers, as a network plugin
// does.
//
// Addresses have one lock, and the package starts no goroutine.
package podip

import (
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podRange has the addresses of pods on nodes without spec.podCIDR.
var podRange = netip.MustParsePrefix("10.0.0.0/8")

// Addresses are those of pods. An address belongs to one pod until the pod has ended or is gone, as
// far as the cache knows, which then knows of every write before.
type Addresses struct {
	mu    sync.Mutex
	pods  map[types.UID][]netip.Addr
	owner map[netip.Addr]types.UID
	last  map[netip.Prefix]netip.Addr // the address that was given last
}

// New returns the addresses of no pods.
func New() *Addresses {
	return &Addresses{pods: map[types.UID][]netip.Addr{}, owner: map[netip.Addr]types.UID{}, last: map[netip.Prefix]netip.Addr{}}
}

// Observe notes the addresses that a pod has, or that it has none any more.
func (a *Addresses) Observe(p *corev1.Pod) {
	if p.Spec.HostNetwork {
		return
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		a.Release(p.UID)
		return
	}
	if p.Status.PodIP == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pods[p.UID]) > 0 {
		return
	}
	for _, ip := range p.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			a.ownLocked(addr, p.UID)
		}
	}
}

func (a *Addresses) ownLocked(addr netip.Addr, pod types.UID) {
	if a.owner[addr] == "" {
		a.owner[addr] = pod
		a.pods[pod] = append(a.pods[pod], addr)
	}
}

// Reserve lets no pod have an address.
func (a *Addresses) Reserve(addr netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owner[addr] = reserved
}

// reserved is the owner of addresses that no pod has.
const reserved types.UID = "reserved"

// Release frees the addresses of a pod.
func (a *Addresses) Release(pod types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, addr := range a.pods[pod] {
		delete(a.owner, addr)
	}
	delete(a.pods, pod)
}

// Of returns the addresses of a pod, which are always the same ones: one of each range of its node.
// It returns none if a range is exhausted.
func (a *Addresses) Of(pod types.UID, cidrs []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pods[pod]) == 0 {
		for _, r := range ranges(cidrs) {
			if addr, ok := a.freeLocked(r); ok {
				a.ownLocked(addr, pod)
			}
		}
	}
	var texts []string
	for _, addr := range a.pods[pod] {
		texts = append(texts, addr.String())
	}
	return texts
}

// RangesOf returns the ranges of a node as its spec has them: spec.podCIDRs, or else spec.podCIDR
// alone.
func RangesOf(n *corev1.Node) []string {
	if len(n.Spec.PodCIDRs) == 0 && n.Spec.PodCIDR != "" {
		return []string{n.Spec.PodCIDR}
	}
	return n.Spec.PodCIDRs
}

// ranges returns the ranges in texts, two at most, or the default.
func ranges(cidrs []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range cidrs {
		if r, err := netip.ParsePrefix(text); err == nil && len(all) < 2 {
			all = append(all, r.Masked())
		}
	}
	if len(all) == 0 {
		all = append(all, podRange)
	}
	return all
}

// freeLocked returns a free address: the next one after that which was given last. The first
// address of a range and the last one of a range of IPv4 are not given.
func (a *Addresses) freeLocked(r netip.Prefix) (netip.Addr, bool) {
	from, ok := a.last[r]
	if !ok {
		from = r.Addr()
	}
	for addr, wrapped := from.Next(), false; ; addr = addr.Next() {
		if !addr.IsValid() || !r.Contains(addr) || addr.Is4() && !r.Contains(addr.Next()) {
			if wrapped {
				return netip.Addr{}, false
			}
			wrapped = true
			addr = r.Addr()
			continue
		}
		if a.owner[addr] == "" {
			a.last[r] = addr
			return addr, true
		}
		if wrapped && addr == from {
			return netip.Addr{}, false
		}
	}
}
