package cluster

import (
	"strconv"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// Nodes returns the kind Node.
func Nodes() []kind.Row {
	return []kind.Row{
		kind.Kind[*corev1.Node]{
			Version:       corev1.SchemeGroupVersion,
			Plural:        "nodes",
			StoredAt:      "minions",
			ShortNames:    []string{"no"},
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateNode,
			// A kubelet creates its node with a status.
			Status: &kind.Status[*corev1.Node]{
				Validate:        validateNodeStatus,
				ComesWithObject: true,
				Prepare:         func(obj, old resource.Tree) { kind.DropUnlessSet(obj, old, "status", "config") },
			},
			PrepareCreate: func(obj resource.Tree) {
				kind.Drop(obj, "spec", "configSource")
				kind.Drop(obj, "spec", "podPreemptionPolicy") // InPlacePodVerticalScalingSchedulerPreemption is off by default
				kind.Drop(obj, "status", "config")
			},
			PrepareUpdate: func(obj, old resource.Tree) {
				kind.DropUnlessSet(obj, old, "spec", "configSource")
				kind.DropUnlessSet(obj, old, "spec", "podPreemptionPolicy")
			},
			Connections: []resource.Connection{
				kind.Proxy(corev1.SchemeGroupVersion, func(options *corev1.NodeProxyOptions) *string { return &options.Path }),
			},
			Table: nodesTable(),
			Selectable: []kind.Selectable{{Label: "spec.unschedulable", Value: func(obj resource.Tree) string {
				unschedulable, _ := kind.Get(obj, "spec", "unschedulable").(bool)
				return strconv.FormatBool(unschedulable)
			}}},
			Strategy: resource.Strategy{Warnings: storage.WarnOfNode},
		}.Row(),
	}
}
