package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	nodev1 "k8s.io/api/node/v1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
)

// runtimes has group node.k8s.io.
func runtimes() []row {
	return []row{
		kind[nodev1.RuntimeClass]{
			version:       nodev1.SchemeGroupVersion,
			plural:        "runtimeclasses",
			clusterScoped: true,
			defaults:      fill[nodev1.RuntimeClass],
			validate:      validation.RuntimeClass,
			table:         tables.RuntimeClasses(),
			retired: []another[nodev1.RuntimeClass]{
				in[nodev1.RuntimeClass, nodev1beta1.RuntimeClass](nodev1beta1.SchemeGroupVersion),
			},
			versioned: true,
			hooks:     resource.Hooks{Warnings: warnOfRuntimeClass, CreateOnUpdate: true},
		}.row(),
	}
}
