package connect

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// errNotAllowed is returned for an address that a node, a pod or a service must not have. The words
// are those of Kubernetes.
var errNotAllowed = errors.New("address not allowed")

// A guard rejects connections to addresses that no other machine has, and to this server.
type guard struct {
	loopback bool // permits loopback addresses
	self     netip.AddrPort
}

// control is a callback for net.Dialer.Control, which is called with the resolved address of each
// attempt.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errNotAllowed
	}
	return g.check(at)
}

func (g *guard) check(at netip.AddrPort) error {
	ip := at.Addr().Unmap()
	switch {
	case g.isSelf(ip, at.Port()):
		return errNotAllowed
	case ip.IsLoopback() && g.loopback:
		return nil
	case !ip.IsGlobalUnicast() || ip.Is4() && ip.As4()[0] == 0:
		return errNotAllowed
	}
	return nil
}

// isSelf reports whether this server listens on an address.
func (g *guard) isSelf(ip netip.Addr, port uint16) bool {
	own := g.self.Addr().Unmap()
	switch {
	case !g.self.IsValid() || port != g.self.Port():
		return false
	case !own.IsUnspecified():
		return ip == own
	case ip.IsLoopback():
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true // it cannot be excluded
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == ip.WithZone("") {
			return true
		}
	}
	return false
}

// allowed checks a host that is an IP address, before a connection is opened. Other hosts are
// checked when they have been resolved.
func (g *guard) allowed(host string) error {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	return g.check(netip.AddrPortFrom(ip, 0))
}
