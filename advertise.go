package kapok

import (
	"net"
	"net/netip"
)

// advertised is where others find the server that listens at an address, HOST:PORT. Of
// a server on all interfaces it is the first that is no loopback; the zero AddrPort is
// that of a server that nobody outside the process finds.
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
