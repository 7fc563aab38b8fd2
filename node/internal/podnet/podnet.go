// Package podnet makes the network of the pods of a node: a namespace of the kernel for the node,
// the hub, one for each pod, and a pair of virtual interfaces between the hub and each of them. It
// needs the permission to administer networks, which the first process of a new namespace of users
// has, and changes nothing in the network of the machine.
//
//	pod 10.77.0.2          hub                             machine
//	 eth0 ------- p0002 ---+
//	                       +--- 10.77.0.1                  (no connection)
//	 eth0 ------- p0003 ---+    all other addresses
//	pod 10.77.0.3
//
// Packets between pods are forwarded in the hub. All other addresses, including those of Services,
// are local ones of the hub, where sockets can listen: Listen and Dial make sockets in the hub for
// the program of the node, which connects them with the machine. Connections of pods to addresses
// at which no socket listens reach Options.Outgoing, if the kernel has what this needs (nf_tables
// with TPROXY).
//
// A socket belongs to the namespace in which it was made, whichever process uses it. The package
// changes the namespace of a thread only, for the time of a function, and starts no goroutine that
// outlives one.
package podnet

import "net/netip"

// Options configure a Network. All fields are required.
type Options struct {
	// Pods is the range of the addresses of pods, of 16 bits at least. The first address is
	// that of the hub.
	Pods netip.Prefix
	// Services is the range of the addresses of Services. It may be one of loopback addresses,
	// which pods then reach at the hub.
	Services netip.Prefix
}

// Gateway returns the address of the hub for pods.
func (o Options) Gateway() netip.Addr { return o.Pods.Masked().Addr().Next() }

// Outgoing is the address in the hub of the sockets that all connections and datagrams of pods to
// other addresses reach. They are made with Listen and transparent.
func (o Options) Outgoing() netip.AddrPort { return netip.AddrPortFrom(o.Gateway(), 1) }

// A Socket is what Open makes in the hub.
type Socket struct {
	// Network is tcp or udp.
	Network string
	// Listen is the address at which the socket listens. Invalid: it is connected with Dial.
	Listen netip.AddrPort
	// Dial is the address with which it is connected, and From its own one, which may be
	// invalid.
	Dial, From netip.AddrPort
	// Transparent lets the socket have addresses that are not those of this machine: that of
	// Options.Outgoing, or From.
	Transparent bool
}
