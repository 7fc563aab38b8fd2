package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"
)

// serviceFlag is the flag for the cluster IPs of services, named as kube-apiserver's.
func serviceFlag(f *pflag.FlagSet, to *netip.Prefix, standard string) {
	*to = netip.MustParsePrefix(standard)
	f.Var((*prefix)(to), "service-cluster-ip-range", "CIDR of the cluster IPs of services; has an effect only when the store is created; with --node process, by default 127.96.0.0/12")
}

// prefix is a flag for a range of addresses.
type prefix netip.Prefix

func (p *prefix) Type() string   { return "CIDR" }
func (p *prefix) String() string { return netip.Prefix(*p).String() }

func (p *prefix) Set(text string) error {
	parsed, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("want a range of addresses, like 10.96.0.0/12, not %q", text)
	}
	*p = prefix(parsed.Masked())
	return nil
}
