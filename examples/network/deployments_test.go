package main

import (
	"net/netip"
	"testing"
)

func TestFreePrefix(t *testing.T) {
	for _, test := range []struct {
		name  string
		pool  string
		bits  int
		taken []string
		want  string // "": none
	}{
		{"the first", "10.0.0.0/8", 24, nil, "10.0.0.0/24"},
		{"the second", "10.0.0.0/8", 24, []string{"10.0.0.0/24"}, "10.0.1.0/24"},
		{"a gap", "10.0.0.0/8", 24, []string{"10.0.0.0/24", "10.0.2.0/24"}, "10.0.1.0/24"},
		{"unsorted", "10.0.0.0/8", 24, []string{"10.0.1.0/24", "10.0.0.0/24"}, "10.0.2.0/24"},
		{"behind a large one", "10.0.0.0/8", 24, []string{"10.0.0.0/9"}, "10.128.0.0/24"},
		{"beside small ones", "10.0.0.0/8", 24, []string{"10.0.0.128/30", "10.0.0.0/32"}, "10.0.1.0/24"},
		{"others do not matter", "10.0.0.0/8", 24, []string{"192.168.0.0/16", "fd00::/8"}, "10.0.0.0/24"},
		{"the last", "10.0.0.0/23", 24, []string{"10.0.0.0/24"}, "10.0.1.0/24"},
		{"none left", "10.0.0.0/23", 24, []string{"10.0.0.0/24", "10.0.1.0/24"}, ""},
		{"all taken", "10.0.0.0/8", 24, []string{"0.0.0.0/0"}, ""},
		{"the whole pool", "10.0.0.0/8", 8, nil, "10.0.0.0/8"},
		{"larger than the pool", "10.0.0.0/8", 7, nil, ""},
		{"no such length", "10.0.0.0/8", 33, nil, ""},
		{"the end of all addresses", "255.255.255.0/24", 24, []string{"255.255.255.0/24"}, ""},
		{"six", "fd00::/48", 64, []string{"fd00::/64"}, "fd00:0:0:1::/64"},
	} {
		var taken []netip.Prefix
		for _, prefix := range test.taken {
			taken = append(taken, netip.MustParsePrefix(prefix))
		}
		got, ok := freePrefix(netip.MustParsePrefix(test.pool), test.bits, taken)
		if said := got.String(); ok && said != test.want || ok != (test.want != "") {
			t.Errorf("%s: %s, %t, want %s", test.name, got, ok, test.want)
		}
	}
}
