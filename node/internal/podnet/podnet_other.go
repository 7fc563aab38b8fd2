//go:build !linux

package podnet

import "net/netip"

// Destination returns no address.
func Destination([]byte) (netip.AddrPort, bool) { return netip.AddrPort{}, false }
