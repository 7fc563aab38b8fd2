package podnet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The few messages of rtnetlink and nf_tables that a network of pods needs. A netlink socket
// belongs to the namespace in which its thread is when it is opened.

// A netlink is a socket to the kernel. Close it.
type netlink struct {
	fd       int
	sequence uint32
}

// openNetlink opens a socket of a family, such as NETLINK_ROUTE.
func openNetlink(family int) (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("bind", err)
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() { _ = unix.Close(n.fd) }

// message returns a message with a header and a body.
func (n *netlink) message(kind, flags uint16, body ...[]byte) []byte {
	n.sequence++
	all := slices.Concat(body...)
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(all)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, n.sequence)
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, all...)
}

// send sends messages, and waits for the acknowledgments of those that ask for one.
func (n *netlink) send(acknowledged int, messages ...[]byte) error {
	if err := unix.Sendto(n.fd, slices.Concat(messages...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buffer := make([]byte, os.Getpagesize()*4)
	for acknowledged > 0 {
		size, _, err := unix.Recvfrom(n.fd, buffer, 0)
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		for left := buffer[:size]; len(left) >= unix.NLMSG_HDRLEN; {
			length := int(binary.NativeEndian.Uint32(left))
			if length < unix.NLMSG_HDRLEN || length > len(left) {
				return fmt.Errorf("netlink: a message of %d bytes in %d", length, len(left))
			}
			if kind := binary.NativeEndian.Uint16(left[4:]); kind == unix.NLMSG_ERROR && length >= unix.NLMSG_HDRLEN+4 {
				if code := int32(binary.NativeEndian.Uint32(left[unix.NLMSG_HDRLEN:])); code != 0 {
					return unix.Errno(-code)
				}
				acknowledged--
			}
			left = left[min(aligned(length), len(left)):]
		}
	}
	return nil
}

// request sends one message, and waits for its acknowledgment.
func (n *netlink) request(kind, flags uint16, body ...[]byte) error {
	return n.send(1, n.message(kind, flags|unix.NLM_F_ACK, body...))
}

func aligned(length int) int { return (length + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// attribute returns an attribute of a message.
func attribute(kind int, data ...[]byte) []byte {
	all := slices.Concat(data...)
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(all)))
	b = binary.NativeEndian.AppendUint16(b, uint16(kind))
	b = append(b, all...)
	return append(b, make([]byte, aligned(len(b))-len(b))...)
}

// nested returns an attribute that has others.
func nested(kind int, attributes ...[]byte) []byte {
	return attribute(kind|unix.NLA_F_NESTED, attributes...)
}

func text(s string) []byte        { return append([]byte(s), 0) }
func native(n uint32) []byte      { return binary.NativeEndian.AppendUint32(nil, n) }
func big(n uint32) []byte         { return binary.BigEndian.AppendUint32(nil, n) }
func address(a netip.Addr) []byte { return a.AsSlice() }

// bytesOf returns the memory of a struct of the kernel.
func bytesOf[T any](v *T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
}

// addPair adds two virtual interfaces that are connected, the second one in another namespace.
func (n *netlink) addPair(name, peer string, namespace *os.File) error {
	link := bytesOf(&unix.IfInfomsg{})
	return n.request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, link,
		attribute(unix.IFLA_IFNAME, text(name)),
		nested(unix.IFLA_LINKINFO,
			attribute(unix.IFLA_INFO_KIND, []byte("veth")),
			nested(unix.IFLA_INFO_DATA, nested(vethPeer, link,
				attribute(unix.IFLA_IFNAME, text(peer)),
				attribute(unix.IFLA_NET_NS_FD, native(uint32(namespace.Fd())))))))
}

// vethPeer is VETH_INFO_PEER of linux/veth.h.
const vethPeer = 1

// remove removes an interface, and its peer.
func (n *netlink) remove(name string) error {
	return n.request(unix.RTM_DELLINK, 0, bytesOf(&unix.IfInfomsg{}), attribute(unix.IFLA_IFNAME, text(name)))
}

// up starts an interface.
func (n *netlink) up(name string) error {
	return n.request(unix.RTM_NEWLINK, 0, bytesOf(&unix.IfInfomsg{Flags: unix.IFF_UP, Change: unix.IFF_UP}), attribute(unix.IFLA_IFNAME, text(name)))
}

// addAddress gives an interface an address of IPv4.
func (n *netlink) addAddress(index int, a netip.Addr) error {
	m := unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: 32, Index: uint32(index)}
	return n.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, bytesOf(&m), attribute(unix.IFA_LOCAL, address(a)), attribute(unix.IFA_ADDRESS, address(a)))
}

// A route is one of IPv4.
type route struct {
	to      netip.Prefix
	kind    uint8      // such as RTN_UNICAST
	table   uint8      // 0: the main one
	index   int        // of the interface; 0: none
	gateway netip.Addr // is reached by the interface
}

func (n *netlink) addRoute(r route) error {
	m := unix.RtMsg{Family: unix.AF_INET, Dst_len: uint8(r.to.Bits()), Table: r.table, Protocol: unix.RTPROT_STATIC, Type: r.kind}
	if m.Table == 0 {
		m.Table = unix.RT_TABLE_MAIN
	}
	switch {
	case r.kind == unix.RTN_LOCAL:
		m.Scope = unix.RT_SCOPE_HOST
	case !r.gateway.IsValid() && r.index > 0:
		m.Scope = unix.RT_SCOPE_LINK
	}
	attributes := [][]byte{attribute(unix.RTA_DST, address(r.to.Addr()))}
	if r.index > 0 {
		attributes = append(attributes, attribute(unix.RTA_OIF, native(uint32(r.index))))
	}
	if r.gateway.IsValid() {
		m.Flags = unix.RTNH_F_ONLINK
		attributes = append(attributes, attribute(unix.RTA_GATEWAY, address(r.gateway)))
	}
	return n.request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, append([][]byte{bytesOf(&m)}, attributes...)...)
}
