package builtin

import (
	"strconv"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// nodes has the kinds of machines.
func nodes() []row {
	return []row{
		kind[corev1.Node]{
			version:       corev1.SchemeGroupVersion,
			plural:        "nodes",
			shortNames:    []string{"no"},
			absent:        map[string]string{"proxy": "nobody listens there: a node is an object, and no machine"},
			clusterScoped: true,
			defaults:      fill[corev1.Node],
			validate:      validation.Node,
			// A kubelet registers with all that it knows of its machine.
			status: &status[corev1.Node]{
				validate:        validation.NodeStatus,
				comesWithObject: true,
				prepare:         func(obj, old resource.Tree) { dropUnlessSet(obj, old, "status", "config") },
			},
			prepareCreate: func(obj resource.Tree) {
				drop(obj, "spec", "configSource")
				drop(obj, "spec", "podPreemptionPolicy") // InPlacePodVerticalScalingSchedulerPreemption is off unless asked for
				drop(obj, "status", "config")
			},
			prepareUpdate: func(obj, old resource.Tree) {
				dropUnlessSet(obj, old, "spec", "configSource")
				dropUnlessSet(obj, old, "spec", "podPreemptionPolicy")
			},
			table: tables.Nodes(),
			selectable: []selectable{{"spec.unschedulable", func(obj resource.Tree) string {
				unschedulable, _ := get(obj, "spec", "unschedulable").(bool)
				return strconv.FormatBool(unschedulable)
			}}},
			hooks: resource.Hooks{Warnings: warnOfNode},
		}.row(),
	}
}

// dropUnlessSet removes a field that nobody can set any more, or not yet, unless it is set already.
func dropUnlessSet(obj, old resource.Tree, path ...string) {
	if get(old, path...) == nil {
		drop(obj, path...)
	}
}
