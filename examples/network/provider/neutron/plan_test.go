package neutron

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/examples/network/provider"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

func TestPlan(t *testing.T) {
	subnet := func(id, cidr, gateway string) subnets.Subnet {
		return subnets.Subnet{ID: id, CIDR: cidr, GatewayIP: gateway}
	}
	wanted := provider.Spec{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("10.0.0.1")}
	for _, test := range []struct {
		name  string
		found []subnets.Subnet
		want  plan
	}{
		{"nothing", nil, plan{}},
		{"as wanted", []subnets.Subnet{subnet("a", "10.0.0.0/8", "10.0.0.1")}, plan{keep: "a"}},
		{"another gateway", []subnets.Subnet{subnet("a", "10.0.0.0/8", "10.0.0.2")}, plan{keep: "a", gateway: true}},
		{"no gateway", []subnets.Subnet{subnet("a", "10.0.0.0/8", "")}, plan{keep: "a", gateway: true}},
		{"another range", []subnets.Subnet{subnet("a", "10.0.0.0/9", "10.0.0.1")}, plan{remove: []string{"a"}}},
		{"one of two", []subnets.Subnet{subnet("a", "11.0.0.0/8", "11.0.0.1"), subnet("b", "10.0.0.0/8", "10.0.0.1")}, plan{remove: []string{"a"}, keep: "b"}},
		{"twice", []subnets.Subnet{subnet("a", "10.0.0.0/8", "10.0.0.1"), subnet("b", "10.0.0.0/8", "10.0.0.1")}, plan{remove: []string{"b"}, keep: "a"}},
		{"not to be read", []subnets.Subnet{subnet("a", "?", "?")}, plan{remove: []string{"a"}}},
	} {
		if got := planOf(test.found, wanted); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestPools(t *testing.T) {
	for _, test := range []struct {
		cidr, gateway string
		want          []string
	}{
		{"10.0.0.0/24", "10.0.0.1", []string{"10.0.0.2-10.0.0.254"}},
		{"10.0.0.0/24", "10.0.0.254", []string{"10.0.0.1-10.0.0.253"}},
		{"10.0.0.0/24", "10.0.0.9", []string{"10.0.0.1-10.0.0.8", "10.0.0.10-10.0.0.254"}},
		{"10.0.0.0/24", "10.0.0.0", []string{"10.0.0.1-10.0.0.254"}},
		{"10.0.0.0/24", "10.0.0.255", []string{"10.0.0.1-10.0.0.254"}},
		{"10.0.0.0/30", "10.0.0.1", []string{"10.0.0.2-10.0.0.2"}},
		{"10.0.0.0/31", "10.0.0.0", []string{"10.0.0.1-10.0.0.1"}},
		{"10.0.0.7/32", "10.0.0.7", nil},
		{"0.0.0.0/0", "0.0.0.1", []string{"0.0.0.2-255.255.255.254"}},
		{"0.0.0.0/0", "255.255.255.255", []string{"0.0.0.1-255.255.255.254"}},
		{"fd00::/64", "fd00::1", []string{"fd00::2-fd00::ffff:ffff:ffff:ffff"}},
		{"fd00::/64", "fd00::", []string{"fd00::1-fd00::ffff:ffff:ffff:ffff"}},
		{"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", []string{"::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"}},
	} {
		var got []string
		for _, pool := range pools(provider.Spec{CIDR: netip.MustParsePrefix(test.cidr), Gateway: netip.MustParseAddr(test.gateway)}) {
			got = append(got, pool.Start+"-"+pool.End)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s %s: %v, want %v", test.cidr, test.gateway, got, test.want)
		}
	}
}
