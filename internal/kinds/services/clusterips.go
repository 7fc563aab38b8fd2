package services

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// addressManager is the value of the managed-by label of kube-apiserver's IPAddresses.
const addressManager = "ipallocator.k8s.io"

// The resources that the service network consists of.
var (
	ServiceResource       = schema.GroupResource{Resource: "services"}
	EndpointsResource     = schema.GroupResource{Resource: "endpoints"}
	EndpointSliceResource = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
	AddressResource       = schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
	ServiceCIDRResource   = schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
)

// The errors of an address, in Kubernetes' words.
var (
	errAllocated = errors.New("provided IP is already allocated")
	errOutside   = errors.New("the provided network does not match the current range")
	errFull      = errors.New("range is full")
)

// claimAddress claims the cluster IP of a service, or a free one if it names none. A service has at
// most one, as the service network has one family.
func (r Ranges) claimAddress(c *resource.Claims, now, before *corev1.Service) error {
	held, wanted := clusterIP(before), clusterIP(now)
	if before != nil && held != "" && held != wanted {
		r.releaseAddress(c, before, held)
	}
	if now == nil || now.Spec.Type == corev1.ServiceTypeExternalName || now.Spec.ClusterIP == corev1.ClusterIPNone || wanted != "" && wanted == held {
		return nil
	}
	if wanted != "" {
		return r.claimThisAddress(c, now, wanted)
	}
	address, err := r.anyAddress(c)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", now.Name, err))
	}
	now.Spec.ClusterIP, now.Spec.ClusterIPs = address.String(), []string{address.String()}
	return createAddress(c, now, address)
}

// clusterIP returns the address of a service, "" if it has none.
func clusterIP(s *corev1.Service) string {
	if s == nil || s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return ""
	}
	return s.Spec.ClusterIP
}

func (r Ranges) claimThisAddress(c *resource.Claims, s *corev1.Service, text string) error {
	address, err := netip.ParseAddr(text)
	if err == nil {
		err = r.check(c, address)
	}
	if err != nil {
		return causes.Invalid(schema.GroupKind{Kind: "Service"}, s.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "clusterIPs"), s.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %v", text, err)),
		})
	}
	return createAddress(c, s, address)
}

// check returns an error if an address cannot be claimed. A dry run checks the range only.
func (r Ranges) check(c *resource.Claims, address netip.Addr) error {
	within := r.prefixes(c)
	switch {
	case slices.ContainsFunc(within, func(p netip.Prefix) bool { return p.Contains(address) && address != p.Addr() && address != last(p) }):
	case c.DryRun() && len(within) > 0:
		return fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", address, within[0])
	default:
		return errOutside
	}
	if !c.DryRun() && taken(c, address) {
		return errAllocated
	}
	return nil
}

// anyAddress returns a free address. The lower part of each range is kept for services that name
// their address, until the rest is full (KEP-3070).
func (r Ranges) anyAddress(c *resource.Claims) (netip.Addr, error) {
	for _, p := range r.prefixes(c) {
		if c.DryRun() {
			return p.Addr(), nil // a dry run needs no address
		}
		first, size := bounds(p)
		reserved := uint32(0)
		if whole := size + 2; whole > 16 {
			reserved = min(max(whole/16, 16), 256)
		}
		for _, part := range [][2]uint32{{first + reserved, size - reserved}, {first, reserved}} {
			if address, ok := free(c, part[0], part[1]); ok {
				return address, nil
			}
		}
	}
	return netip.Addr{}, errFull
}

// free tries n addresses, starting at a random one.
func free(c *resource.Claims, first, n uint32) (netip.Addr, bool) {
	if n == 0 {
		return netip.Addr{}, false
	}
	start := rand.Uint32N(n)
	for i := range n {
		if address := addressAt(first + (start+i)%n); !taken(c, address) {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// bounds returns the first address of a range that can be claimed, and the number of such
// addresses: all but the first and the last of the range, the network's and the broadcast address.
func bounds(p netip.Prefix) (first, n uint32) {
	base := binary.BigEndian.Uint32(p.Addr().AsSlice())
	if hosts := uint64(1) << (32 - p.Bits()); hosts > 2 {
		return base + 1, uint32(hosts - 2)
	}
	return base + 1, 0
}

func last(p netip.Prefix) netip.Addr {
	first, n := bounds(p)
	return addressAt(first + n)
}

func addressAt(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// prefixes returns the IPv4 ranges of the ServiceCIDRs in use.
func (r Ranges) prefixes(c *resource.Claims) []netip.Prefix {
	var all []netip.Prefix
	said := false
	for o := range c.State().Snapshot(ServiceCIDRResource).All("") {
		said = said || o.Key.Name == DefaultServiceCIDR
		tree, err := o.Tree()
		if err != nil || o.Meta.Deleting() {
			continue
		}
		cidr := kind.Decoded[networkingv1.ServiceCIDR](tree)
		if slices.ContainsFunc(cidr.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == networkingv1.ServiceCIDRConditionReady && c.Status != metav1.ConditionTrue
		}) {
			continue
		}
		for _, text := range cidr.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
				all = append(all, p.Masked())
			}
		}
	}
	if !said {
		all = append(all, r.Addresses)
	}
	return all
}

func addressKey(address string) object.Key {
	return object.Key{Resource: AddressResource, Name: address}
}

func taken(c *resource.Claims, address netip.Addr) bool {
	o, _ := c.State().Get(addressKey(address.String()))
	return o != nil
}

// addressDefinition is the definition of IPAddresses, as in the table of kinds.
var addressDefinition = sync.OnceValue(func() *resource.Definition { return ipAddresses().Definition(kind.Versioning{}) })

func createAddress(c *resource.Claims, s *corev1.Service, address netip.Addr) error {
	return c.Create(addressDefinition(), IPAddressOf(s.Namespace, s.Name, address.String()))
}

// IPAddressOf returns the IPAddress of a service.
func IPAddressOf(namespace, name, address string) resource.Tree {
	return resource.Tree{
		"metadata": resource.Tree{
			"name": address,
			"labels": resource.Tree{
				networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol),
				networkingv1.LabelManagedBy:       addressManager,
			},
		},
		"spec": resource.Tree{"parentRef": resource.Tree{"group": "", "resource": ServiceResource.Resource, "namespace": namespace, "name": name}},
	}
}

// releaseAddress deletes the IPAddress of an address if it belongs to the service.
func (r Ranges) releaseAddress(c *resource.Claims, s *corev1.Service, address string) {
	o, _ := c.State().Get(addressKey(address))
	if o == nil {
		return
	}
	if key, ok := holder(o); ok && key == (object.Key{Resource: ServiceResource, Namespace: s.Namespace, Name: s.Name}) {
		c.Remove(o)
	}
}

// holder returns the service that an IPAddress belongs to.
func holder(o *object.Object) (object.Key, bool) {
	tree, err := o.Tree()
	if err != nil {
		return object.Key{}, false
	}
	ref, _ := kind.Get(tree, "spec", "parentRef").(resource.Tree)
	return object.Key{Resource: ServiceResource, Namespace: kind.Text(ref, "namespace"), Name: kind.Text(ref, "name")},
		kind.Text(ref, "group") == ServiceResource.Group && kind.Text(ref, "resource") == ServiceResource.Resource
}

// keepHeldAddress rejects the deletion of an IPAddress that a service holds, as another service
// could claim the address. Kubernetes allows it and creates the IPAddress again a little later.
func keepHeldAddress(c *resource.Claims, obj, old resource.Tree) error {
	if obj != nil {
		return nil
	}
	name := kind.Text(old, "metadata", "name")
	o, _ := c.State().Get(addressKey(name))
	if o == nil {
		return nil
	}
	key, ok := holder(o)
	if !ok {
		return nil
	}
	service, _ := c.State().Get(key)
	c.Require(key, service)
	if service == nil {
		return nil
	}
	tree, err := service.Tree()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if ips, _ := kind.Get(tree, "spec", "clusterIPs").([]any); !slices.Contains(ips, any(name)) {
		return nil
	}
	return apierrors.NewForbidden(AddressResource, name, fmt.Errorf("service %s/%s has this address", key.Namespace, key.Name))
}
