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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	operatingSystem = "linux"
	architecture    = "amd64"
	kubeletVersion  = "v1.37.2"
	kubeletPort     = 10250
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
			KubeletVersion: kubeletVersion, OperatingSystem: operatingSystem, Architecture: architecture,
		}
	}
	if s.DaemonEndpoints.KubeletEndpoint.Port == 0 {
		s.DaemonEndpoints.KubeletEndpoint.Port = kubeletPort
	}
	due := !now.Before(heartbeat(n.Name, &s, o.StatusInterval))
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	} {
		s.Conditions = setNodeCondition(s.Conditions, c, due, now)
	}
	return s
}

// setNodeCondition sets a condition, with a new heartbeat if that is due or the condition changes.
func setNodeCondition(all []corev1.NodeCondition, c corev1.NodeCondition, due bool, now time.Time) []corev1.NodeCondition {
	c.LastHeartbeatTime, c.LastTransitionTime = seconds(now), seconds(now)
	i := slices.IndexFunc(all, func(is corev1.NodeCondition) bool { return is.Type == c.Type })
	if i < 0 {
		return append(all, c)
	}
	was := &all[i]
	if was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
		if was.Reason == c.Reason && was.Message == c.Message && !due {
			c.LastHeartbeatTime = was.LastHeartbeatTime
		}
	}
	all[i] = c
	return all
}

// heartbeat returns when the next heartbeat in the status of a node is due: once in each interval,
// and at another time in it for each node.
func heartbeat(name string, s *corev1.NodeStatus, interval time.Duration) time.Time {
	i := slices.IndexFunc(s.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return time.Time{}
	}
	phase := spread(name, interval)
	last := s.Conditions[i].LastHeartbeatTime.Time
	return last.Add(-phase).Truncate(interval).Add(interval + phase)
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
