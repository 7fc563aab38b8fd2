package flow

import (
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// Kinds returns the kinds of group flowcontrol.apiserver.k8s.io.
func Kinds() []kind.Row {
	v1 := flowcontrolv1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*flowcontrolv1.FlowSchema]{
			Version:       v1,
			Plural:        "flowschemas",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateFlowSchema,
			Status:        &kind.Status[*flowcontrolv1.FlowSchema]{Validate: validateFlowSchemaStatus, Keeps: kind.ClientMetadata},
			Generation:    []string{"spec"},
			Table:         flowSchemasTable(),
		}.Row(),
		kind.Kind[*flowcontrolv1.PriorityLevelConfiguration]{
			Version:       v1,
			Plural:        "prioritylevelconfigurations",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validatePriorityLevelConfiguration,
			Status:        &kind.Status[*flowcontrolv1.PriorityLevelConfiguration]{Validate: validatePriorityLevelConfigurationStatus, Keeps: kind.ClientMetadata},
			Generation:    []string{"spec"},
			Table:         priorityLevelConfigurationsTable(),
		}.Row(),
	}
}
