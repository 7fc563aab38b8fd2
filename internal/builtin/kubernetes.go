package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// kubernetesName is the name of the service at which everybody in the cluster finds
// the server, and of what belongs to it. defaultServiceCIDR is the name of the range
// of cluster IPs that a server has from its start.
const (
	kubernetesName     = "kubernetes"
	defaultServiceCIDR = "kubernetes"
)

// EnsureKubernetes makes the service kubernetes, the range of addresses in which it
// has the first, and its endpoints, as far as they are not there. The endpoints are
// made to say where the server is now. Other servers of the same store stay in them
// if there may be any (shared); one that ended without LeaveKubernetes is there until
// it comes back.
//
// All of it is one commit. It does not pass through validation, as endpoints that
// others write do: a server may well listen on a loopback address only. A server that
// others cannot reach at all (the zero AddrPort) has no endpoints. The range is that of the addresses, if there is none yet; the
// zero Prefix is the default.
func EnsureKubernetes(ctx context.Context, store *resource.Store, server netip.AddrPort, shared bool, addresses netip.Prefix) error {
	r := defaultRanges()
	if addresses.IsValid() {
		r.Addresses = addresses
	}
	return follow(ctx, store, r.atStart(server, shared))
}

// LeaveKubernetes takes a server out of the endpoints of the service kubernetes.
func LeaveKubernetes(ctx context.Context, store *resource.Store, server netip.AddrPort) error {
	return follow(ctx, store, func(find finder) []piece {
		var servers []netip.AddrPort
		for _, other := range serversIn(find(endpointsResource, metav1.NamespaceDefault, kubernetesName)) {
			if other != server {
				servers = append(servers, other)
			}
		}
		return endpointsOf(servers)
	})
}

// A piece is an object as it is to be, of a resource.
type piece struct {
	resource schema.GroupResource
	tree     resource.Tree
}

// A finder returns an object as it is now, nil if it is not there.
type finder func(resource schema.GroupResource, namespace, name string) resource.Tree

// follow writes what a plan wants, as far as it is not so. It plans anew where somebody
// else writes meanwhile.
func follow(ctx context.Context, store *resource.Store, plan func(find finder) []piece) error {
	for {
		wanted := plan(func(resource schema.GroupResource, namespace, name string) resource.Tree {
			o, _ := store.State().Get(object.Key{Resource: resource, Namespace: namespace, Name: name})
			if o == nil {
				return nil
			}
			tree, err := o.Tree()
			if err != nil {
				return nil
			}
			return tree
		})
		batch := journal.Batch{}
		for _, p := range wanted {
			entry, err := p.entry(store)
			if err != nil {
				return fmt.Errorf("service %s: %w", kubernetesName, err)
			}
			if entry != nil {
				batch.Entries = append(batch.Entries, *entry)
			}
		}
		if len(batch.Entries) == 0 {
			return nil
		}
		_, err := store.State().Append(ctx, batch)
		var conflict *journal.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
	}
}

// entry is the write that brings an object to be like the piece; nil if it is.
func (p piece) entry(store *resource.Store) (*journal.Entry, error) {
	d := store.Registry().Load().Resource(p.resource)
	if d == nil {
		return nil, fmt.Errorf("%s are not served", p.resource)
	}
	p.tree["apiVersion"], p.tree["kind"] = d.APIVersion(d.Storage), d.Kind
	tree, err := d.Storage.Model.Normalise(p.tree, nil)
	if err != nil {
		return nil, err
	}
	entry := &journal.Entry{Key: d.Key(text(tree, "metadata", "namespace"), text(tree, "metadata", "name"))}
	if current, _ := store.State().Get(entry.Key); current != nil {
		old, err := resource.TreeOf(d, d.Storage, current)
		if err != nil {
			return nil, err
		}
		keep(tree, old, "metadata")
		if reflect.DeepEqual(tree, old) {
			return nil, nil
		}
		entry.Prev = current.Revision
	} else {
		put(tree, string(uuid.NewUUID()), "metadata", "uid")
		put(tree, time.Now().UTC().Format(time.RFC3339), "metadata", "creationTimestamp")
	}
	entry.Object, err = object.New(entry.Key, tree, 0, time.Now())
	return entry, err
}

// atStart plans what a server needs from its start.
func (r Ranges) atStart(server netip.AddrPort, shared bool) func(find finder) []piece {
	return func(find finder) []piece {
		var wanted []piece
		if find(serviceCIDRResource, "", defaultServiceCIDR) == nil {
			wanted = append(wanted, piece{serviceCIDRResource, r.serviceCIDR()})
		}
		address := r.Addresses.Masked().Addr().Next().String()
		switch service := find(serviceResource, metav1.NamespaceDefault, kubernetesName); {
		case service != nil && server.IsValid() && !shared:
			wanted = append(wanted, piece{serviceResource, leadingTo(service, server.Port())})
		case service != nil:
		case find(addressResource, "", address) == nil: // else the address is somebody else's by now
			wanted = append(wanted,
				piece{serviceResource, kubernetesService(address, server.Port())},
				piece{addressResource, ipAddressOf(metav1.NamespaceDefault, kubernetesName, address)})
		}
		if !server.IsValid() {
			return wanted
		}
		servers := []netip.AddrPort{server}
		for _, other := range serversIn(find(endpointsResource, metav1.NamespaceDefault, kubernetesName)) {
			if shared && other != server {
				servers = append(servers, other)
			}
		}
		return append(wanted, endpointsOf(servers)...)
	}
}

func (r Ranges) serviceCIDR() resource.Tree {
	return resource.Tree{
		"metadata": resource.Tree{"name": defaultServiceCIDR},
		"spec":     resource.Tree{"cidrs": []any{r.Addresses.String()}},
		"status": resource.Tree{"conditions": []any{resource.Tree{
			"type":               networkingv1.ServiceCIDRConditionReady,
			"status":             string(metav1.ConditionTrue),
			"message":            "Kubernetes default Service CIDR is ready",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}},
	}
}

func kubernetesService(address string, port uint16) resource.Tree {
	if port == 0 {
		port = 6443
	}
	return resource.Tree{
		"metadata": resource.Tree{
			"name": kubernetesName, "namespace": metav1.NamespaceDefault,
			"labels": resource.Tree{"provider": "kubernetes", "component": "apiserver"},
		},
		"spec": resource.Tree{
			"type":            string(corev1.ServiceTypeClusterIP),
			"clusterIP":       address,
			"clusterIPs":      []any{address},
			"ipFamilies":      []any{string(corev1.IPv4Protocol)},
			"ipFamilyPolicy":  string(corev1.IPFamilyPolicySingleStack),
			"sessionAffinity": string(corev1.ServiceAffinityNone),
			"ports":           []any{resource.Tree{"name": "https", "protocol": "TCP", "port": int64(443), "targetPort": int64(port)}},
		},
	}
}

// leadingTo is the service kubernetes with the port that its server has now. In Kubernetes that never changes.
func leadingTo(service resource.Tree, port uint16) resource.Tree {
	ports, _ := get(service, "spec", "ports").([]any)
	for _, p := range ports {
		if p, ok := p.(map[string]any); ok && p["name"] == "https" {
			p["targetPort"] = int64(port)
		}
	}
	return service
}

// endpointsOf are servers as endpoints and as an endpoint slice; nobody mirrors one to
// the other. A slice has one port and one family of addresses: those of the first.
func endpointsOf(servers []netip.AddrPort) []piece {
	slices.SortFunc(servers, func(a, b netip.AddrPort) int {
		return cmp.Or(cmp.Compare(a.Port(), b.Port()), a.Addr().Compare(b.Addr()))
	})
	var subsets, listed, ports []any
	family := discoveryv1.AddressTypeIPv4
	for i, server := range servers {
		address := server.Addr().Unmap()
		if i == 0 && address.Is6() {
			family = discoveryv1.AddressTypeIPv6
		}
		if i == 0 || server.Port() != servers[i-1].Port() {
			port := []any{resource.Tree{"name": "https", "port": int64(server.Port()), "protocol": "TCP"}}
			subsets = append(subsets, resource.Tree{"addresses": []any{}, "ports": port})
		}
		subset := subsets[len(subsets)-1].(resource.Tree)
		subset["addresses"] = append(subset["addresses"].([]any), resource.Tree{"ip": address.String()})
		if len(subsets) == 1 && address.Is6() == (family == discoveryv1.AddressTypeIPv6) {
			listed = append(listed, resource.Tree{"addresses": []any{address.String()}, "conditions": resource.Tree{"ready": true}})
			ports, _ = subset["ports"].([]any)
		}
	}
	metadata := func(label, value string) resource.Tree {
		return resource.Tree{"name": kubernetesName, "namespace": metav1.NamespaceDefault, "labels": resource.Tree{label: value}}
	}
	return []piece{
		{endpointsResource, resource.Tree{"metadata": metadata(discoveryv1.LabelSkipMirror, "true"), "subsets": subsets}},
		{endpointSliceResource, resource.Tree{
			"metadata":    metadata(discoveryv1.LabelServiceName, kubernetesName),
			"addressType": string(family), "endpoints": listed, "ports": ports,
		}},
	}
}

// serversIn are the servers that endpoints name.
func serversIn(endpoints resource.Tree) []netip.AddrPort {
	var servers []netip.AddrPort
	for _, subset := range decoded[corev1.Endpoints](endpoints).Subsets {
		for _, address := range subset.Addresses {
			for _, port := range subset.Ports {
				if ip, err := netip.ParseAddr(address.IP); err == nil {
					servers = append(servers, netip.AddrPortFrom(ip, uint16(port.Port)))
				}
			}
		}
	}
	return servers
}
