package server

import (
	"net"
	"net/netip"
)

// advertised returns the address at which other programs reach a server that listens at an address,
// HOST:PORT. For a server on all interfaces it is the first address that is not a loopback address.
// It is the zero AddrPort if there is none.
func advertised(listening string) netip.AddrPort {
	at, err := netip.ParseAddrPort(listening)
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
