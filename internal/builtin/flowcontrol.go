package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// flowcontrol is the group of which requests wait for which others.
func flowcontrol() []row {
	v1 := flowcontrolv1.SchemeGroupVersion
	return []row{
		kind[flowcontrolv1.FlowSchema]{
			version:       v1,
			plural:        "flowschemas",
			clusterScoped: true,
			defaults:      fill[flowcontrolv1.FlowSchema],
			validate:      validation.FlowSchema,
			status:        &status[flowcontrolv1.FlowSchema]{validate: validation.FlowSchemaStatus, keeps: clientMetadata},
			generation:    []string{"spec"},
			table:         tables.FlowSchemas(),
		}.row(),
		kind[flowcontrolv1.PriorityLevelConfiguration]{
			version:       v1,
			plural:        "prioritylevelconfigurations",
			clusterScoped: true,
			defaults:      fill[flowcontrolv1.PriorityLevelConfiguration],
			validate:      validation.PriorityLevelConfiguration,
			status:        &status[flowcontrolv1.PriorityLevelConfiguration]{validate: validation.PriorityLevelConfigurationStatus, keeps: clientMetadata},
			generation:    []string{"spec"},
			table:         tables.PriorityLevelConfigurations(),
		}.row(),
	}
}
