package bootstrap

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
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// EnsureKubernetes creates the service kubernetes, the range of addresses whose first address it
// has, and its endpoints, unless they exist, and updates the endpoints with the present address of
// the server. With shared, other servers of the store stay in the endpoints; a server that ended
// without LeaveKubernetes stays there until it starts again.
//
// All of it is one commit, without validation, because endpoints that users write must not have
// loopback addresses, and the server may listen on one. A server that has no address (the zero
// AddrPort) has no endpoints. addresses is the range if there is none yet; the zero Prefix is the
// default.
func EnsureKubernetes(ctx context.Context, store *resource.Store, server netip.AddrPort, shared bool, addresses netip.Prefix) error {
	return follow(ctx, store, atStart(rangesOf(addresses), server, shared))
}

// KubernetesAddress returns the cluster IP that the service kubernetes gets in a new store with a
// range of addresses; the zero Prefix is the default.
func KubernetesAddress(addresses netip.Prefix) netip.Addr {
	return rangesOf(addresses).Addresses.Masked().Addr().Next()
}

func rangesOf(addresses netip.Prefix) services.Ranges {
	r := services.DefaultRanges()
	if addresses.IsValid() {
		r.Addresses = addresses
	}
	return r
}

// LeaveKubernetes removes a server from the endpoints of the service kubernetes.
func LeaveKubernetes(ctx context.Context, store *resource.Store, server netip.AddrPort) error {
	return follow(ctx, store, func(find finder) []piece {
		var servers []netip.AddrPort
		for _, other := range serversIn(find(services.EndpointsResource, metav1.NamespaceDefault, services.KubernetesName)) {
			if other != server {
				servers = append(servers, other)
			}
		}
		return endpointsOf(servers)
	})
}

// A piece is the wanted state of an object.
type piece struct {
	resource schema.GroupResource
	tree     resource.Tree
}

// A finder returns the present state of an object, nil if it does not exist.
type finder func(resource schema.GroupResource, namespace, name string) resource.Tree

// follow writes the objects of a plan that differ from what is stored. On a conflict with another
// writer it plans again.
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
				return fmt.Errorf("service %s: %w", services.KubernetesName, err)
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

// entry returns the write that brings the object to the wanted state; nil if none is needed.
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
	entry := &journal.Entry{Key: d.Key(kind.Text(tree, "metadata", "namespace"), kind.Text(tree, "metadata", "name"))}
	if current, _ := store.State().Get(entry.Key); current != nil {
		old, err := resource.TreeOf(d, d.Storage, current)
		if err != nil {
			return nil, err
		}
		kind.Keep(tree, old, "metadata")
		if reflect.DeepEqual(tree, old) {
			return nil, nil
		}
		entry.Prev = current.Revision
	} else {
		kind.Put(tree, string(uuid.NewUUID()), "metadata", "uid")
		kind.Put(tree, time.Now().UTC().Format(time.RFC3339), "metadata", "creationTimestamp")
	}
	entry.Object, err = object.New(entry.Key, tree, 0, time.Now())
	return entry, err
}

// atStart returns the plan for the start of a server.
func atStart(r services.Ranges, server netip.AddrPort, shared bool) func(find finder) []piece {
	return func(find finder) []piece {
		var wanted []piece
		if find(services.ServiceCIDRResource, "", services.DefaultServiceCIDR) == nil {
			wanted = append(wanted, piece{services.ServiceCIDRResource, serviceCIDR(r)})
		}
		address := KubernetesAddress(r.Addresses).String()
		switch service := find(services.ServiceResource, metav1.NamespaceDefault, services.KubernetesName); {
		case service != nil && server.IsValid() && !shared:
			wanted = append(wanted, piece{services.ServiceResource, leadingTo(service, server.Port())})
		case service != nil:
		case find(services.AddressResource, "", address) == nil: // otherwise another service has the address
			wanted = append(wanted,
				piece{services.ServiceResource, kubernetesService(address, server.Port())},
				piece{services.AddressResource, services.IPAddressOf(metav1.NamespaceDefault, services.KubernetesName, address)})
		}
		if !server.IsValid() {
			return wanted
		}
		servers := []netip.AddrPort{server}
		for _, other := range serversIn(find(services.EndpointsResource, metav1.NamespaceDefault, services.KubernetesName)) {
			if shared && other != server {
				servers = append(servers, other)
			}
		}
		return append(wanted, endpointsOf(servers)...)
	}
}

func serviceCIDR(r services.Ranges) resource.Tree {
	return resource.Tree{
		"metadata": resource.Tree{"name": services.DefaultServiceCIDR},
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
			"name": services.KubernetesName, "namespace": metav1.NamespaceDefault,
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

// leadingTo returns the service kubernetes with the server's present port. In Kubernetes that port
// never changes.
func leadingTo(service resource.Tree, port uint16) resource.Tree {
	ports, _ := kind.Get(service, "spec", "ports").([]any)
	for _, p := range ports {
		if p, ok := p.(map[string]any); ok && p["name"] == "https" {
			p["targetPort"] = int64(port)
		}
	}
	return service
}

// endpointsOf returns servers as endpoints and as an endpoint slice, because no controller mirrors
// one to the other. A slice has one port and one family of addresses: those of the first.
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
		return resource.Tree{"name": services.KubernetesName, "namespace": metav1.NamespaceDefault, "labels": resource.Tree{label: value}}
	}
	return []piece{
		{services.EndpointsResource, resource.Tree{"metadata": metadata(discoveryv1.LabelSkipMirror, "true"), "subsets": subsets}},
		{services.EndpointSliceResource, resource.Tree{
			"metadata":    metadata(discoveryv1.LabelServiceName, services.KubernetesName),
			"addressType": string(family), "endpoints": listed, "ports": ports,
		}},
	}
}

// serversIn returns the servers in endpoints.
func serversIn(endpoints resource.Tree) []netip.AddrPort {
	var servers []netip.AddrPort
	for _, subset := range kind.Decoded[corev1.Endpoints](endpoints).Subsets {
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
