package neutron

import (
	"net/netip"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/kapok-dev/kapok/examples/network/provider"
)

// A plan makes the subnets of a network one that is as it is wanted.
type plan struct {
	remove  []string // IDs of subnets to delete
	keep    string   // the ID of the subnet that stays; "": there is to be a new one
	gateway bool     // it needs another gateway
}

// planOf compares our subnets of a network with what is wanted.
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

// specOf is what a subnet is like. What Neutron says and nobody can read counts as missing.
func specOf(subnet subnets.Subnet) provider.Spec {
	cidr, _ := netip.ParsePrefix(subnet.CIDR)
	gateway, _ := netip.ParseAddr(subnet.GatewayIP) // "": somebody has taken it away
	return provider.Spec{CIDR: cidr.Masked(), Gateway: gateway}
}

// pools are the addresses of a subnet that virtual machines may have: all but the gateway, and those that IP keeps for itself.
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
