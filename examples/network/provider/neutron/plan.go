package neutron

import (
	"net/netip"

	"github.com/kapok-dev/kapok/examples/network/provider"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// A plan has the changes that leave a network with one subnet as in the spec.
type plan struct {
	remove  []string // IDs of subnets to delete
	keep    string   // the ID of the subnet that stays; "": there is to be a new one
	gateway bool     // it needs another gateway
}

// planOf compares the provider's subnets of a network with the spec.
func planOf(found []subnets.Subnet, wanted provider.Spec) plan {
	var p plan
	for _, subnet := range found {
		switch spec := specOf(subnet); {
		case p.keep == "" && spec.CIDR == wanted.CIDR:
			p.keep, p.gateway = subnet.ID, spec.Gateway != wanted.Gateway
		default:
			p.remove = append(p.remove, subnet.ID)
		}
	}
	return p
}

// specOf returns the spec of a subnet. A field that Neutron returns in an invalid form counts as
// missing.
func specOf(subnet subnets.Subnet) provider.Spec {
	cidr, _ := netip.ParsePrefix(subnet.CIDR)
	gateway, _ := netip.ParseAddr(subnet.GatewayIP) // "" if the gateway was removed by hand
	return provider.Spec{CIDR: cidr.Masked(), Gateway: gateway}
}

// pools returns the address ranges of a subnet for virtual machines: all addresses except the
// gateway and the reserved ones.
func pools(spec provider.Spec) []subnets.AllocationPool {
	first, last := spec.CIDR.Addr(), provider.LastAddr(spec.CIDR)
	if hostBits := first.BitLen() - spec.CIDR.Bits(); hostBits > 1 {
		first = first.Next() // the network, or the anycast address of its routers
		if first.Is4() {
			last = last.Prev() // the broadcast address
		}
	}
	var pools []subnets.AllocationPool
	add := func(first, last netip.Addr) {
		if first.IsValid() && last.IsValid() && first.Compare(last) <= 0 {
			pools = append(pools, subnets.AllocationPool{Start: first.String(), End: last.String()})
		}
	}
	if spec.Gateway.Less(first) || last.Less(spec.Gateway) {
		add(first, last)
		return pools
	}
	add(first, spec.Gateway.Prev())
	add(spec.Gateway.Next(), last)
	return pools
}
