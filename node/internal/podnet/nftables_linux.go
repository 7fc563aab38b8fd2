package podnet

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// intercept lets connections and datagrams of pods to all addresses, except for some, reach the
// sockets at an address of this namespace, which see the original address as their own (TPROXY).
func intercept(at netip.AddrPort, except ...netip.Prefix) error {
	n, err := openNetlink(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer n.close()
	const table, chain = "kapok", "outgoing"
	rule := func(protocol byte) []byte {
		expressions := [][]byte{
			expression("meta", attribute(unix.NFTA_META_DREG, big(unix.NFT_REG_1)), attribute(unix.NFTA_META_KEY, big(unix.NFT_META_L4PROTO))),
			compare(unix.NFT_CMP_EQ, []byte{protocol}),
		}
		for _, p := range except {
			mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-p.Bits()))
			expressions = append(expressions,
				expression("payload", attribute(unix.NFTA_PAYLOAD_DREG, big(unix.NFT_REG_1)), attribute(unix.NFTA_PAYLOAD_BASE, big(unix.NFT_PAYLOAD_NETWORK_HEADER)),
					attribute(unix.NFTA_PAYLOAD_OFFSET, big(destinationOffset)), attribute(unix.NFTA_PAYLOAD_LEN, big(4))),
				expression("bitwise", attribute(unix.NFTA_BITWISE_SREG, big(unix.NFT_REG_1)), attribute(unix.NFTA_BITWISE_DREG, big(unix.NFT_REG_1)),
					attribute(unix.NFTA_BITWISE_LEN, big(4)), value(unix.NFTA_BITWISE_MASK, mask), value(unix.NFTA_BITWISE_XOR, make([]byte, 4))),
				compare(unix.NFT_CMP_NEQ, address(p.Masked().Addr())))
		}
		expressions = append(expressions,
			expression("immediate", attribute(unix.NFTA_IMMEDIATE_DREG, big(unix.NFT_REG_1)), value(unix.NFTA_IMMEDIATE_DATA, address(at.Addr()))),
			expression("immediate", attribute(unix.NFTA_IMMEDIATE_DREG, big(unix.NFT_REG_2)),
				value(unix.NFTA_IMMEDIATE_DATA, binary.BigEndian.AppendUint16(nil, at.Port()))),
			expression("tproxy", attribute(tproxyFamily, big(unix.NFPROTO_IPV4)), attribute(tproxyAddress, big(unix.NFT_REG_1)),
				attribute(tproxyPort, big(unix.NFT_REG_2))))
		return n.table(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND,
			attribute(unix.NFTA_RULE_TABLE, text(table)), attribute(unix.NFTA_RULE_CHAIN, text(chain)), nested(unix.NFTA_RULE_EXPRESSIONS, expressions...))
	}
	return n.send(4,
		n.message(unix.NFNL_MSG_BATCH_BEGIN, 0, subsystem),
		n.table(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, attribute(unix.NFTA_TABLE_NAME, text(table))),
		n.table(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, attribute(unix.NFTA_CHAIN_TABLE, text(table)), attribute(unix.NFTA_CHAIN_NAME, text(chain)),
			nested(unix.NFTA_CHAIN_HOOK, attribute(unix.NFTA_HOOK_HOOKNUM, big(unix.NF_INET_PRE_ROUTING)), attribute(unix.NFTA_HOOK_PRIORITY, big(manglePriority))),
			attribute(unix.NFTA_CHAIN_TYPE, text("filter"))),
		rule(unix.IPPROTO_TCP), rule(unix.IPPROTO_UDP),
		n.message(unix.NFNL_MSG_BATCH_END, 0, subsystem))
}

const (
	// destinationOffset is that of the destination in the header of IPv4.
	destinationOffset = 16
	// manglePriority is NF_IP_PRI_MANGLE, -150: before the route is chosen.
	manglePriority = ^uint32(150) + 1
)

// The attributes of the expression tproxy, in linux/netfilter/nf_tables.h.
const (
	tproxyFamily  = 1
	tproxyAddress = 2
	tproxyPort    = 3
)

// subsystem is the header of messages around a batch of nf_tables.
var subsystem = []byte{unix.AF_UNSPEC, 0, 0, unix.NFNL_SUBSYS_NFTABLES}

// table returns a message about the tables of IPv4, which is acknowledged.
func (n *netlink) table(kind, flags uint16, attributes ...[]byte) []byte {
	body := append([][]byte{{unix.NFPROTO_IPV4, 0, 0, 0}}, attributes...)
	return n.message(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags|unix.NLM_F_ACK, body...)
}

// expression returns an expression of a rule.
func expression(name string, attributes ...[]byte) []byte {
	return nested(unix.NFTA_LIST_ELEM, attribute(unix.NFTA_EXPR_NAME, text(name)), nested(unix.NFTA_EXPR_DATA, attributes...))
}

// value returns an attribute that has data.
func value(kind int, data []byte) []byte {
	return nested(kind, attribute(unix.NFTA_DATA_VALUE, data))
}

// compare compares the first register.
func compare(operator uint32, data []byte) []byte {
	return expression("cmp", attribute(unix.NFTA_CMP_SREG, big(unix.NFT_REG_1)), attribute(unix.NFTA_CMP_OP, big(operator)), value(unix.NFTA_CMP_DATA, data))
}
