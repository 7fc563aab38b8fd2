// Package subsets brings the subsets of Endpoints into a canonical form: each address is in one
// subset for each set of ports that it has, and everything is sorted.
//
// It starts no goroutine and has no locks.
package subsets

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A port is a comparable corev1.EndpointPort. The zero value stands for addresses without ports.
type port struct {
	name        string
	port        int32
	protocol    corev1.Protocol
	appProtocol string
	hasApp      bool
}

// A host is an address of one object. Two objects may share an IP.
type host struct {
	ip  string
	uid types.UID
}

func hostOf(a corev1.EndpointAddress) host {
	h := host{ip: a.IP}
	if a.TargetRef != nil {
		h.uid = a.TargetRef.UID
	}
	return h
}

func compareHosts(a, b host) int {
	return cmp.Or(strings.Compare(a.ip, b.ip), strings.Compare(string(a.uid), string(b.uid)))
}

// Repack returns the canonical form of subsets, which it does not change. The result shares
// pointers with them. An address that is ready and not ready at the same port is not ready.
func Repack(all []corev1.EndpointSubset) []corev1.EndpointSubset {
	addresses := map[host]corev1.EndpointAddress{}
	ready := map[port]map[host]bool{}
	for _, subset := range all {
		ports := portsOf(subset)
		note := func(a corev1.EndpointAddress, isReady bool) {
			h := hostOf(a)
			if _, known := addresses[h]; !known {
				addresses[h] = a
			}
			for _, p := range ports {
				if ready[p] == nil {
					ready[p] = map[host]bool{}
				}
				if was, known := ready[p][h]; !known || was {
					ready[p][h] = isReady
				}
			}
		}
		for _, a := range subset.Addresses {
			note(a, true)
		}
		for _, a := range subset.NotReadyAddresses {
			note(a, false)
		}
	}
	return group(ready, addresses)
}

func portsOf(s corev1.EndpointSubset) (ports []port) {
	if len(s.Ports) == 0 {
		return []port{{}}
	}
	for _, p := range s.Ports {
		as := port{name: p.Name, port: p.Port, protocol: p.Protocol}
		if p.AppProtocol != nil {
			as.appProtocol, as.hasApp = *p.AppProtocol, true
		}
		ports = append(ports, as)
	}
	return ports
}

// group makes one subset of the ports that have the same hosts in the same states.
func group(ready map[port]map[host]bool, addresses map[host]corev1.EndpointAddress) []corev1.EndpointSubset {
	index := map[string]int{} // by the key of a list of hosts
	final := []corev1.EndpointSubset{}
	for _, p := range sortedPorts(ready) {
		hosts := ready[p]
		order := make([]host, 0, len(hosts))
		for h := range hosts {
			order = append(order, h)
		}
		slices.SortFunc(order, compareHosts)
		i, known := index[key(order, hosts)]
		if !known {
			i = len(final)
			index[key(order, hosts)] = i
			var s corev1.EndpointSubset
			for _, h := range order {
				if hosts[h] {
					s.Addresses = append(s.Addresses, addresses[h])
				} else {
					s.NotReadyAddresses = append(s.NotReadyAddresses, addresses[h])
				}
			}
			final = append(final, s)
		}
		if p != (port{}) {
			as := corev1.EndpointPort{Name: p.name, Port: p.port, Protocol: p.protocol}
			if p.hasApp {
				as.AppProtocol = &p.appProtocol
			}
			final[i].Ports = append(final[i].Ports, as)
		}
	}
	return final
}

func sortedPorts(ready map[port]map[host]bool) []port {
	all := make([]port, 0, len(ready))
	for p := range ready {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b port) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.name, b.name), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.appProtocol, b.appProtocol))
	})
	return all
}

// key returns a text that is the same for equal hosts in equal states. NUL is in neither IPs nor
// uids.
func key(order []host, ready map[host]bool) string {
	var b strings.Builder
	for _, h := range order {
		b.WriteString(h.ip)
		b.WriteByte(0)
		b.WriteString(string(h.uid))
		b.WriteByte(0)
		if ready[h] {
			b.WriteByte('r')
		}
		b.WriteByte(0)
	}
	return b.String()
}
