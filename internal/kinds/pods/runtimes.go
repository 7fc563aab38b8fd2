package pods

import (
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/storage"
	"github.com/kapok-dev/kapok/internal/resource"

	nodev1 "k8s.io/api/node/v1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
)

// Runtimes has group node.k8s.io.
func Runtimes() []kind.Row {
	return []kind.Row{
		kind.Kind[*nodev1.RuntimeClass]{
			Version:       nodev1.SchemeGroupVersion,
			Plural:        "runtimeclasses",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateRuntimeClass,
			Table:         runtimeClassesTable(),
			Retired: []kind.Another[*nodev1.RuntimeClass]{
				kind.In[*nodev1.RuntimeClass, *nodev1beta1.RuntimeClass](nodev1beta1.SchemeGroupVersion),
			},
			Versioned: true,
			Strategy:  resource.Strategy{Warnings: warnOfRuntimeClass, CreateOnUpdate: true},
		}.Row(),
	}
}

func warnOfRuntimeClass(obj, _ resource.Tree) (warnings []string) {
	scheduling := kind.Decoded[nodev1.RuntimeClass](obj).Scheduling
	if scheduling == nil {
		return nil
	}
	for _, label := range slices.Sorted(maps.Keys(scheduling.NodeSelector)) {
		if message := storage.OldNodeLabel(label); message != "" {
			warnings = append(warnings, "scheduling.nodeSelector: "+message)
		}
	}
	return warnings
}
