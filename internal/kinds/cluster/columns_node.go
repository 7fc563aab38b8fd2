package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodesTable is the table of nodes.
func nodesTable() kind.Table[*corev1.Node] {
	return kind.Table[*corev1.Node]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Status", "The status of the node"),
		kind.Column("Roles", "The roles of the node"),
		kind.AgeColumn(),
		kind.FieldColumn("Version", corev1.NodeSystemInfo{}, "kubeletVersion"),
		kind.Wide(kind.FieldColumn("Internal-IP", corev1.NodeStatus{}, "addresses")),
		kind.Wide(kind.FieldColumn("External-IP", corev1.NodeStatus{}, "addresses")),
		kind.Wide(kind.FieldColumn("OS-Image", corev1.NodeSystemInfo{}, "osImage")),
		kind.Wide(kind.FieldColumn("Kernel-Version", corev1.NodeSystemInfo{}, "kernelVersion")),
		kind.Wide(kind.FieldColumn("Container-Runtime", corev1.NodeSystemInfo{}, "containerRuntimeVersion")),
	}, Cells: nodeCells}
}

func nodeCells(node *corev1.Node, now time.Time) []any {
	info := &node.Status.NodeInfo
	kernel := nodeInfo(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		node.Name, nodeState(node), kind.OrNone(nodeRoles(node.Labels)), kind.Age(node.ObjectMeta, now), info.KubeletVersion,
		nodeAddress(node, corev1.NodeInternalIP), nodeAddress(node, corev1.NodeExternalIP),
		nodeInfo(info.OSImage), kernel, nodeInfo(info.ContainerRuntimeVersion),
	}
}

func nodeState(node *corev1.Node) string {
	state := "Unknown"
	for _, c := range node.Status.Conditions { // the last one is shown
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

// nodeRoles returns the roles that a node's labels of two forms name.
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
