package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
)

// addressesOf returns the addresses that the status of a Service has.
func addressesOf(s *corev1.Service) (all []netip.Addr) {
	for _, i := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// families returns the families of a Service, as whether they are IPv4.
func families(s *corev1.Service) (v4 []bool) {
	for _, f := range s.Spec.IPFamilies {
		v4 = append(v4, f == corev1.IPv4Protocol)
	}
	if v4 == nil {
		v4 = []bool{true}
	}
	return v4
}

// suit reports whether the addresses that a Service has are those that it is to have: one of the
// pool for each family, and the one that it asks for.
func (r *reconciler) suit(s *corev1.Service, has []netip.Addr) bool {
	want := families(s)
	if len(has) != len(want) || len(s.Status.LoadBalancer.Ingress) != len(want) {
		return false
	}
	for i, a := range has {
		if a.Is4() != want[i] || !r.inPool(a) {
			return false
		}
	}
	asked, err := netip.ParseAddr(s.Spec.LoadBalancerIP)
	return err != nil || slices.Contains(has, asked)
}

func (r *reconciler) inPool(a netip.Addr) bool {
	return slices.ContainsFunc(r.pool, func(p netip.Prefix) bool { return p.Contains(a) })
}

// allocate returns the addresses of a Service: those that it has as far as they suit, and free
// ones.
func (r *reconciler) allocate(ctx context.Context, s *corev1.Service, has []netip.Addr) (all []netip.Addr, err error) {
	used, err := r.inUse(ctx, s)
	if err != nil {
		return nil, err
	}
	asked, err := netip.ParseAddr(s.Spec.LoadBalancerIP)
	if err == nil && (!r.inPool(asked) || used[asked]) {
		return nil, fmt.Errorf("address %s is not free", asked)
	}
	for i, v4 := range families(s) {
		suits := func(a netip.Addr) bool { return a.Is4() == v4 && r.inPool(a) && !used[a] }
		switch {
		case asked.IsValid() && asked.Is4() == v4:
			all = append(all, asked)
			continue
		case i < len(has) && suits(has[i]):
			all = append(all, has[i])
			continue
		}
		a, ok := r.free(v4, used)
		if !ok {
			return nil, fmt.Errorf("no address of %v is free", r.pool)
		}
		all = append(all, a)
	}
	return all, nil
}

// inUse returns the addresses of all other Services, as the server has them: the cache may not know
// yet what another process has written.
func (r *reconciler) inUse(ctx context.Context, but *corev1.Service) (map[netip.Addr]bool, error) {
	var list corev1.ServiceList
	if err := r.live.List(ctx, &list, client.MatchingFields{"spec.type": string(corev1.ServiceTypeLoadBalancer)}); err != nil {
		return nil, err
	}
	used := map[netip.Addr]bool{}
	for i := range list.Items {
		if s := &list.Items[i]; s.UID != but.UID {
			for _, a := range addressesOf(s) {
				used[a] = true
			}
		}
	}
	return used, nil
}

// free returns the first address of a family that is not used.
func (r *reconciler) free(v4 bool, used map[netip.Addr]bool) (netip.Addr, bool) {
	for _, p := range r.pool {
		if p.Addr().Is4() != v4 {
			continue
		}
		a := p.Masked().Addr()
		if p.Bits() < 31 || !v4 && p.Bits() < 127 {
			a = a.Next() // the address of the network
		}
		for ; p.Contains(a); a = a.Next() {
			last := v4 && p.Bits() < 31 && !p.Contains(a.Next()) // the broadcast address
			if !used[a] && !last {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}
