package neutrontest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/kapok-dev/kapok/examples/network/provider"
)

func (c *Cloud) subnetsLocked(w http.ResponseWriter, r *http.Request, id string) {
	at := slices.IndexFunc(c.subnets, func(s *Subnet) bool { return s.ID == id })
	if id != "" && at < 0 {
		refuse(w, 404, "SubnetNotFound", "Subnet "+id+" could not be found.")
		return
	}
	switch {
	case r.Method == "GET" && id == "":
		query := r.URL.Query()
		page(c, w, r, "subnets", c.subnets, func(s *Subnet) (string, bool) {
			return s.ID, !query.Has("network_id") || query.Get("network_id") == s.NetworkID
		})
	case r.Method == "GET":
		answer(w, 200, map[string]any{"subnet": c.subnets[at]})
	case r.Method == "POST" && id == "":
		c.createSubnetLocked(w, r)
	case r.Method == "PUT" && id != "":
		updateSubnet(w, r, c.subnets[at])
	case r.Method == "DELETE" && id != "":
		network := c.subnets[at].NetworkID
		if c.usedLocked(network) {
			refuse(w, 409, "SubnetInUse", "Unable to complete operation on subnet "+id+": One or more ports have an IP allocation from this subnet.")
			return
		}
		c.subnets = slices.Delete(c.subnets, at, at+1)
		c.linkLocked(network)
		w.WriteHeader(204)
	default:
		refuse(w, 405, "HTTPMethodNotAllowed", r.Method)
	}
}

func (c *Cloud) createSubnetLocked(w http.ResponseWriter, r *http.Request) {
	var body struct{ Subnet Subnet }
	if !read(w, r, &body) {
		return
	}
	s := &body.Subnet
	cidr, err := netip.ParsePrefix(s.CIDR)
	if err != nil || s.IPVersion != version(cidr.Addr()) {
		refuse(w, 400, "HTTPBadRequest", fmt.Sprintf("Invalid input for cidr. Reason: '%s' is not a valid IP subnet.", s.CIDR))
		return
	}
	cidr = cidr.Masked()
	if !slices.ContainsFunc(c.networks, func(n *Network) bool { return n.ID == s.NetworkID }) {
		refuse(w, 404, "NetworkNotFound", "Network "+s.NetworkID+" could not be found.")
		return
	}
	for _, other := range c.subnets {
		if other.NetworkID == s.NetworkID && netip.MustParsePrefix(other.CIDR).Overlaps(cidr) {
			refuse(w, 400, "InvalidInput", fmt.Sprintf("Invalid input for operation: Requested subnet with cidr: %s for network: %s overlaps with another subnet.",
				cidr, s.NetworkID))
			return
		}
	}
	if s.GatewayIP == nil {
		refuse(w, 400, "HTTPBadRequest", "this cloud chooses no gateways")
		return
	}
	gateway, err := netip.ParseAddr(*s.GatewayIP)
	if err != nil || !cidr.Contains(gateway) || gateway.Is4() && cidr.Bits() < 31 && gateway == cidr.Addr() {
		refuse(w, 400, "InvalidInput", "Invalid input for operation: Gateway is not valid on subnet.")
		return
	}
	s.ID, s.CIDR = c.idLocked(), cidr.String()
	if len(s.AllocationPools) == 0 {
		// Neutron allocates all addresses except the gateway; here only those after it, which is enough
		// to conflict with another gateway.
		s.AllocationPools = []Pool{{Start: gateway.Next().String(), End: provider.LastAddr(cidr).Prev().String()}}
	}
	c.subnets = append(c.subnets, s)
	c.linkLocked(s.NetworkID)
	answer(w, 201, map[string]any{"subnet": s})
}

// updateSubnet changes the gateway and the pools. A gateway of null removes it.
func updateSubnet(w http.ResponseWriter, r *http.Request, s *Subnet) {
	var body struct{ Subnet map[string]any }
	if !read(w, r, &body) {
		return
	}
	pools, gateway := s.AllocationPools, s.GatewayIP
	for field, value := range body.Subnet {
		switch field {
		case "gateway_ip":
			gateway = nil
			if text, ok := value.(string); ok {
				gateway = &text
			}
		case "allocation_pools":
			pools = nil
			for _, pool := range value.([]any) {
				p := pool.(map[string]any)
				pools = append(pools, Pool{Start: p["start"].(string), End: p["end"].(string)})
			}
		default:
			refuse(w, 400, "HTTPBadRequest", "Attribute '"+field+"' not allowed in PUT")
			return
		}
	}
	if gateway != nil {
		address, err := netip.ParseAddr(*gateway)
		if err != nil || !netip.MustParsePrefix(s.CIDR).Contains(address) {
			refuse(w, 400, "InvalidInput", "Invalid input for operation: Gateway is not valid on subnet.")
			return
		}
		for _, pool := range pools {
			start, end := netip.MustParseAddr(pool.Start), netip.MustParseAddr(pool.End)
			if !address.Less(start) && !end.Less(address) {
				refuse(w, 409, "GatewayConflictWithAllocationPools", fmt.Sprintf("Gateway ip %s conflicts with allocation pool %s-%s.", address, start, end))
				return
			}
		}
	}
	s.GatewayIP, s.AllocationPools = gateway, pools
	answer(w, 200, map[string]any{"subnet": s})
}

// linkLocked notes in a network which subnets it has.
func (c *Cloud) linkLocked(network string) {
	for _, n := range c.networks {
		if n.ID != network {
			continue
		}
		n.Subnets = []string{}
		for _, s := range c.subnets {
			if s.NetworkID == network {
				n.Subnets = append(n.Subnets, s.ID)
			}
		}
	}
}

func version(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}
