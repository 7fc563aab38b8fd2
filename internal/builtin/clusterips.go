package builtin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

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

// addressManager is who kube-apiserver says it is where it manages IPAddresses.
const addressManager = "ipallocator.k8s.io"

var (
	serviceResource       = schema.GroupResource{Resource: "services"}
	endpointsResource     = schema.GroupResource{Resource: "endpoints"}
	endpointSliceResource = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
	addressResource       = schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
	serviceCIDRResource   = schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
)

// What is wrong with an address, in Kubernetes' words.
var (
	errAllocated = errors.New("provided IP is already allocated")
	errOutside   = errors.New("the provided network does not match the current range")
	errFull      = errors.New("range is full")
)

// claimAddress claims the cluster IP of a service, or any if it names none. There is
// one at most: the network of services has one family.
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

// clusterIP is the address that a service has, "" if it has none.
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
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, s.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "clusterIPs"), s.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %v", text, err)),
		})
	}
	return createAddress(c, s, address)
}

// check says why an address cannot be given. A dry run looks at the range only.
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

// anyAddress returns an address that nobody has. The lower part of each range is for
// those who name theirs, until the other is full (KEP-3070).
func (r Ranges) anyAddress(c *resource.Claims) (netip.Addr, error) {
	for _, p := range r.prefixes(c) {
		if c.DryRun() {
			return p.Addr(), nil // of what is not given none needs to be chosen
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

// free looks through n addresses, from a random one on.
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

// bounds are the first address of a range that can be given, and how many there are:
// all but the range's own and the last, which stands for all.
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

// prefixes are the ranges of IPv4 addresses that ServiceCIDRs name and that are in use.
func (r Ranges) prefixes(c *resource.Claims) []netip.Prefix {
	var all []netip.Prefix
	said := false
	for o := range c.State().Snapshot(serviceCIDRResource).All("") {
		said = said || o.Key.Name == defaultServiceCIDR
		tree, err := o.Tree()
		if err != nil || o.Meta.Deleting() {
			continue
		}
		cidr := decoded[networkingv1.ServiceCIDR](tree)
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
	return object.Key{Resource: addressResource, Name: address}
}

func taken(c *resource.Claims, address netip.Addr) bool {
	o, _ := c.State().Get(addressKey(address.String()))
	return o != nil
}

// addressDefinition is that of IPAddresses, as it is in the table of kinds.
var addressDefinition = sync.OnceValue(func() *resource.Definition { return ipAddresses().Definition })

func createAddress(c *resource.Claims, s *corev1.Service, address netip.Addr) error {
	return c.Create(addressDefinition(), ipAddressOf(s.Namespace, s.Name, address.String()))
}

// ipAddressOf is the IPAddress of a service.
func ipAddressOf(namespace, name, address string) resource.Tree {
	return resource.Tree{
		"metadata": resource.Tree{
			"name": address,
			"labels": resource.Tree{
				networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol),
				networkingv1.LabelManagedBy:       addressManager,
			},
		},
		"spec": resource.Tree{"parentRef": resource.Tree{"group": "", "resource": serviceResource.Resource, "namespace": namespace, "name": name}},
	}
}

// releaseAddress lets go of an address, if it is the service's.
func (r Ranges) releaseAddress(c *resource.Claims, s *corev1.Service, address string) {
	o, _ := c.State().Get(addressKey(address))
	if o == nil {
		return
	}
	if key, ok := holder(o); ok && key == (object.Key{Resource: serviceResource, Namespace: s.Namespace, Name: s.Name}) {
		c.Remove(o)
	}
}

// holder is the service that an IPAddress says it belongs to.
func holder(o *object.Object) (object.Key, bool) {
	tree, err := o.Tree()
	if err != nil {
		return object.Key{}, false
	}
	ref, _ := get(tree, "spec", "parentRef").(resource.Tree)
	return object.Key{Resource: serviceResource, Namespace: text(ref, "namespace"), Name: text(ref, "name")},
		text(ref, "group") == serviceResource.Group && text(ref, "resource") == serviceResource.Resource
}

// keepHeldAddress refuses to delete the IPAddress of a service: the address would be
// free for others. Kubernetes lets it go and creates it again a little later.
func keepHeldAddress(c *resource.Claims, obj, old resource.Tree) error {
	if obj != nil {
		return nil
	}
	name := text(old, "metadata", "name")
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
	if ips, _ := get(tree, "spec", "clusterIPs").([]any); !slices.Contains(ips, any(name)) {
		return nil
	}
	return apierrors.NewForbidden(addressResource, name, fmt.Errorf("service %s/%s has this address", key.Namespace, key.Name))
}
