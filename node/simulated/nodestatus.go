package simulated

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/node/internal/heartbeat"
	"github.com/kapok-dev/kapok/node/internal/kubelet"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	operatingSystem = "linux"
	architecture    = "amd64"
)

// nodeStatus returns the status of a running node: the current one, with the fields that a kubelet
// posts added or corrected.
func (o *Options) nodeStatus(n *corev1.Node, now time.Time) corev1.NodeStatus {
	s := *n.Status.DeepCopy()
	if len(s.Capacity) == 0 {
		s.Capacity = maps.Clone(s.Allocatable)
	}
	if len(s.Capacity) == 0 {
		s.Capacity = o.Allocatable.DeepCopy()
	}
	if len(s.Allocatable) == 0 {
		s.Allocatable = s.Capacity.DeepCopy()
	}
	if len(s.Addresses) == 0 {
		s.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: nodeAddress(n.Name, o.NamePrefix).String()},
			{Type: corev1.NodeHostName, Address: n.Name},
		}
	}
	if s.NodeInfo.KubeletVersion == "" {
		s.NodeInfo = corev1.NodeSystemInfo{
			MachineID: string(n.UID), SystemUUID: string(n.UID), BootID: string(n.UID),
			KernelVersion: "6.12.0", OSImage: "Kapok simulated node", ContainerRuntimeVersion: "containerd://2.2.0",
			KubeletVersion: kubelet.Version, OperatingSystem: operatingSystem, Architecture: architecture,
		}
	}
	if s.DaemonEndpoints.KubeletEndpoint.Port == 0 {
		s.DaemonEndpoints.KubeletEndpoint.Port = kubelet.Port
	}
	heartbeat.Healthy(n.Name, &s, o.StatusInterval, now)
	return s
}

// The addresses of nodes: those of created ones count up from the first range by their numbers, and
// others have one of the second range by a hash of their names.
var (
	numberedNodes = netip.MustParseAddr("172.16.0.0")
	namedNodes    = netip.MustParseAddr("172.24.0.0")
)

// nodeRange is the number of addresses of each of these ranges.
const nodeRange = 1 << 19

// NodeAddress returns the address that a node without addresses gets.
func (o Options) NodeAddress(name string) netip.Addr {
	return nodeAddress(name, o.complete().NamePrefix)
}

func nodeAddress(name, prefix string) netip.Addr {
	if text, ok := strings.CutPrefix(name, prefix); ok {
		if i, err := strconv.ParseUint(text, 10, 19); err == nil && i < nodeRange-1 {
			return plus(numberedNodes, uint32(i)+1)
		}
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return plus(namedNodes, h.Sum32()%(nodeRange-2)+1)
}

// plus returns the n-th address after an IPv4 address.
func plus(a netip.Addr, n uint32) netip.Addr {
	b := a.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+n)
	return netip.AddrFrom4(b)
}

// usualLabels are the labels that every node has.
func usualLabels(name string) map[string]string {
	return map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: operatingSystem, corev1.LabelArchStable: architecture}
}

// hostOf returns the host of a node. It has no address before the first status of the node.
func hostOf(n *corev1.Node) host {
	h := host{allocatable: n.Status.Allocatable}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && len(h.ips) < 2 {
			h.ips = append(h.ips, a.Address)
		}
	}
	return h
}

func (h host) equal(other host) bool {
	return slices.Equal(h.ips, other.ips) && equality.Semantic.DeepEqual(h.allocatable, other.allocatable)
}
