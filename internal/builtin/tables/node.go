package tables

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nodes is the table of nodes.
func Nodes() Table[corev1.Node] {
	return Table[corev1.Node]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "The status of the node"),
		column("Roles", "The roles of the node"),
		ageColumn(),
		fieldColumn("Version", corev1.NodeSystemInfo{}, "kubeletVersion"),
		wide(fieldColumn("Internal-IP", corev1.NodeStatus{}, "addresses")),
		wide(fieldColumn("External-IP", corev1.NodeStatus{}, "addresses")),
		wide(fieldColumn("OS-Image", corev1.NodeSystemInfo{}, "osImage")),
		wide(fieldColumn("Kernel-Version", corev1.NodeSystemInfo{}, "kernelVersion")),
		wide(fieldColumn("Container-Runtime", corev1.NodeSystemInfo{}, "containerRuntimeVersion")),
	}, Cells: nodeCells}
}

func nodeCells(node *corev1.Node, now time.Time) []any {
	info := &node.Status.NodeInfo
	kernel := nodeInfo(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		node.Name, nodeState(node), orNone(nodeRoles(node.Labels)), age(node.ObjectMeta, now), info.KubeletVersion,
		nodeAddress(node, corev1.NodeInternalIP), nodeAddress(node, corev1.NodeExternalIP),
		nodeInfo(info.OSImage), kernel, nodeInfo(info.ContainerRuntimeVersion),
	}
}

func nodeState(node *corev1.Node) string {
	state := "Unknown"
	for _, c := range node.Status.Conditions { // the last one counts
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			state = "Ready"
		default:
			state = "NotReady"
		}
	}
	if node.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

// nodeRoles are what labels of two kinds say that a node is for.
func nodeRoles(labels map[string]string) string {
	var roles []string
	for key, value := range labels {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok {
			roles = append(roles, role)
		} else if key == "kubernetes.io/role" {
			roles = append(roles, value)
		}
	}
	roles = slices.DeleteFunc(roles, func(role string) bool { return role == "" })
	slices.Sort(roles)
	return strings.Join(slices.Compact(roles), ",")
}

func nodeAddress(node *corev1.Node, of corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == of {
			return a.Address
		}
	}
	return "<none>"
}

func nodeInfo(s string) string { return cmp.Or(s, "<unknown>") }
