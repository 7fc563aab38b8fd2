package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

func TestParseSpec(t *testing.T) {
	for _, test := range []struct {
		cidr, gateway string
		want          string // CIDR and gateway, or the error
	}{
		{"192.168.0.0/16", "192.168.0.1", "cidr 192.168.0.0/16, gateway 192.168.0.1"},
		{"192.168.1.0/16", "192.168.1.1", "cidr 192.168.0.0/16, gateway 192.168.1.1"},
		{"fd00:1::5/64", "fd00:1::1", "cidr fd00:1::/64, gateway fd00:1::1"},
		{"10.0.0.1/32", "10.0.0.1", "cidr 10.0.0.1/32, gateway 10.0.0.1"},
		{"0.0.0.0/0", "1.2.3.4", "cidr 0.0.0.0/0, gateway 1.2.3.4"},
		{"", "", `cidr "": want a range of addresses, like 192.168.0.0/16`},
		{"192.168.0.0", "192.168.0.1", `cidr "192.168.0.0": want a range of addresses, like 192.168.0.0/16`},
		{"192.168.0.0/33", "192.168.0.1", `cidr "192.168.0.0/33": want a range of addresses, like 192.168.0.0/16`},
		{"192.168.0.0/16", "gateway", `gateway "gateway": want an address, like 192.168.0.1`},
		{"fe80::/10", "fe80::1%eth0", `gateway "fe80::1%eth0": want an address, like 192.168.0.1`},
		{"192.168.0.0/24", "192.168.1.1", "gateway 192.168.1.1 is not in cidr 192.168.0.0/24"},
		{"192.168.0.0/24", "fd00::1", "gateway fd00::1 is not in cidr 192.168.0.0/24"},
		{"192.168.0.0/24", "::ffff:192.168.0.1", "gateway ::ffff:192.168.0.1 is not in cidr 192.168.0.0/24"},
	} {
		got, err := ParseSpec(test.cidr, test.gateway)
		said := got.String()
		if err != nil {
			said = err.Error()
		}
		if said != test.want {
			t.Errorf("%s %s:\n got %s\nwant %s", test.cidr, test.gateway, said, test.want)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add("192.168.0.0/16", "192.168.0.1")
	f.Add("fd00::/64", "fd00::1")
	f.Fuzz(func(t *testing.T, cidr, gateway string) {
		spec, err := ParseSpec(cidr, gateway)
		if err != nil {
			return
		}
		if again, err := ParseSpec(spec.CIDR.String(), spec.Gateway.String()); err != nil || again != spec {
			t.Errorf("%v read again is %v, %v", spec, again, err)
		}
	})
}

func TestDiff(t *testing.T) {
	spec := func(cidr, gateway string) Spec {
		return Spec{CIDR: netip.MustParsePrefix(cidr), Gateway: netip.MustParseAddr(gateway)}
	}
	wanted := spec("10.0.0.0/8", "10.0.0.1")
	down := errors.New("down")
	for _, test := range []struct {
		name   string
		actual Network
		err    error
		want   Change
		fails  error
	}{
		{"absent", Network{}, fmt.Errorf("get: %w", ErrNotFound), Create, nil},
		{"equal", Network{ID: "1", Spec: wanted}, nil, None, nil},
		{"in part", Network{ID: "1"}, nil, Update, nil},
		{"another gateway", Network{ID: "1", Spec: spec("10.0.0.0/8", "10.0.0.2")}, nil, Update, nil},
		{"another range", Network{ID: "1", Spec: spec("10.0.0.0/9", "10.0.0.1")}, nil, Update, nil},
		{"taken", Network{}, ErrTaken, None, ErrTaken},
		{"unknown", Network{}, down, None, down},
	} {
		if got, err := Diff(wanted, test.actual, test.err); got != test.want || !errors.Is(err, test.fails) {
			t.Errorf("%s: %s, %v", test.name, got, err)
		}
	}
}
