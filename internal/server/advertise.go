package server

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkAddresses validates the addresses by which others reach the server.
func (o *Options) checkAddresses() error {
	if at := o.AdvertiseAddress; at.IsValid() && (at.IsUnspecified() || at.IsMulticast() || at.Zone() != "") {
		return fmt.Errorf("Options.AdvertiseAddress is %s: want the IP address of one machine", at)
	}
	if o.ExternalHost == "" {
		return nil
	}
	host, port := splitHost(o.ExternalHost)
	_, err := netip.ParseAddr(host)
	named := err == nil || len(validation.IsDNS1123Subdomain(host)) == 0
	number, err := strconv.ParseUint(cmp.Or(port, "443"), 10, 16)
	if !named || err != nil || number == 0 {
		return fmt.Errorf("Options.ExternalHost is %q: want a DNS name in lower case or an IP address, with or without a port, like kapok.example.com:443", o.ExternalHost)
	}
	return nil
}

// splitHost splits HOST or HOST:PORT; port is empty if there is none.
func splitHost(at string) (host, port string) {
	if host, port, err := net.SplitHostPort(at); err == nil && port != "" {
		return host, port
	}
	return at, ""
}

// external returns the address of the server in documents for clients, HOST:PORT: that of the
// options, or that of the socket.
func (p *parts) external() string {
	o := &p.options
	if o.ExternalHost == "" {
		return p.address
	}
	host, port := splitHost(o.ExternalHost)
	if _, own, err := net.SplitHostPort(p.address); port == "" && err == nil {
		port = own
	}
	return net.JoinHostPort(host, port)
}

// advertised returns the address at which other programs reach a server that listens at an address,
// HOST:PORT. It has the IP address of the options; otherwise, for a server on all interfaces, the
// first address that is not a loopback address. It is the zero AddrPort if there is none.
func advertised(listening string, chosen netip.Addr) netip.AddrPort {
	at, err := netip.ParseAddrPort(listening)
	if err == nil && chosen.IsValid() {
		return netip.AddrPortFrom(chosen, at.Port())
	}
	if err != nil || !at.Addr().IsUnspecified() {
		return at
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return netip.AddrPort{}
	}
	for _, each := range interfaces {
		prefix, err := netip.ParsePrefix(each.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() && (prefix.Addr().Is4() || at.Addr().Is6() && !at.Addr().Is4In6()) {
			return netip.AddrPortFrom(prefix.Addr(), at.Port())
		}
	}
	return netip.AddrPort{}
}
