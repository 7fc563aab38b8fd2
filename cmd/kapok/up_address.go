package main

import (
	"errors"
	"net/netip"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// addressFlags adds the flags for the addresses by which others reach the server. Their names are
// kube-apiserver's.
func addressFlags(f *pflag.FlagSet, o *kapok.Options) {
	f.StringVar(&o.ExternalHost, "external-hostname", "", "name or IP address of the server, with or without a port, in documents for clients such as the OpenID discovery document (default: the address of the socket)")
	f.Var((*address)(&o.AdvertiseAddress), "advertise-address", "IP address of the server in the endpoints of the service kubernetes (default: that of the socket; if that is on all interfaces, the first that is not a loopback address)")
}

// address is a flag for an IP address.
type address netip.Addr

func (a *address) Type() string { return "ip" }

func (a *address) String() string {
	if !netip.Addr(*a).IsValid() {
		return ""
	}
	return netip.Addr(*a).String()
}

func (a *address) Set(text string) error {
	parsed, err := netip.ParseAddr(text)
	if err != nil || parsed.IsUnspecified() || parsed.IsMulticast() || parsed.Zone() != "" {
		return errors.New("want the IP address of one machine, like 10.1.2.3")
	}
	*a = address(parsed)
	return nil
}
