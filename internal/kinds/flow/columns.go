package flow

import (
	"cmp"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flowSchemasTable is the table of flow schemas.
func flowSchemasTable() kind.Table[*flowcontrolv1.FlowSchema] {
	spec := flowcontrolv1.FlowSchemaSpec{}
	return kind.Table[*flowcontrolv1.FlowSchema]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}, "name"),
		kind.FieldColumn("MatchingPrecedence", spec, "matchingPrecedence"),
		kind.FieldColumn("DistinguisherMethod", spec, "distinguisherMethod"),
		kind.AgeColumn(),
		kind.Column("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
	}, Cells: flowSchemaCells, Order: func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence)
	}}
}

func flowSchemaCells(s *flowcontrolv1.FlowSchema, now time.Time) []any {
	method := "<none>"
	if m := s.Spec.DistinguisherMethod; m != nil {
		method = string(m.Type)
	}
	dangling := "?"
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			dangling = string(c.Status)
			break
		}
	}
	return []any{
		s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method, kind.Age(s.ObjectMeta, now), dangling,
	}
}

// priorityLevelConfigurationsTable is the table of priority levels.
func priorityLevelConfigurationsTable() kind.Table[*flowcontrolv1.PriorityLevelConfiguration] {
	queuing := flowcontrolv1.QueuingConfiguration{}
	return kind.Table[*flowcontrolv1.PriorityLevelConfiguration]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}, "type"),
		kind.FieldColumn("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}, "nominalConcurrencyShares"),
		kind.FieldColumn("Queues", queuing, "queues"),
		kind.FieldColumn("HandSize", queuing, "handSize"),
		kind.FieldColumn("QueueLengthLimit", queuing, "queueLengthLimit"),
		kind.AgeColumn(),
	}, Cells: priorityLevelCells}
}

func priorityLevelCells(p *flowcontrolv1.PriorityLevelConfiguration, now time.Time) []any {
	shares, queues, hand, length := any("<none>"), any("<none>"), any("<none>"), any("<none>")
	if limited := p.Spec.Limited; limited != nil {
		if n := limited.NominalConcurrencyShares; n != nil {
			shares = int64(*n)
		}
		if q := limited.LimitResponse.Queuing; q != nil {
			queues, hand, length = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
		}
	}
	return []any{p.Name, string(p.Spec.Type), shares, queues, hand, length, kind.Age(p.ObjectMeta, now)}
}
