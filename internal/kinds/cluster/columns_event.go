package cluster

import (
	"cmp"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventsTable is the table of events.
func eventsTable() kind.Table[*corev1.Event] {
	event := corev1.Event{}
	return kind.Table[*corev1.Event]{Columns: []metav1.TableColumnDefinition{
		kind.FieldColumn("Last Seen", event, "lastTimestamp"),
		kind.FieldColumn("Type", event, "type"),
		kind.FieldColumn("Reason", event, "reason"),
		kind.FieldColumn("Object", event, "involvedObject"),
		kind.Wide(kind.FieldColumn("Subobject", corev1.ObjectReference{}, "fieldPath")),
		kind.Wide(kind.FieldColumn("Source", event, "source")),
		kind.FieldColumn("Message", event, "message"),
		kind.Wide(kind.FieldColumn("First Seen", event, "firstTimestamp")),
		kind.Wide(kind.FieldColumn("Count", event, "count")),
		kind.Wide(kind.NameColumn()),
	}, Cells: eventCells}
}

func eventCells(event *corev1.Event, now time.Time) []any {
	first := kind.Since(event.FirstTimestamp.Time, now)
	if event.FirstTimestamp.IsZero() {
		first = kind.Since(event.EventTime.Time, now)
	}
	last := kind.Since(event.LastTimestamp.Time, now)
	if event.LastTimestamp.IsZero() {
		last = first
	}
	count := event.Count
	if event.Series != nil {
		last = kind.Since(event.Series.LastObservedTime.Time, now)
		count = event.Series.Count
	} else if count == 0 { // events of the new style have a count only in a series
		count = 1
	}
	target := strings.ToLower(event.InvolvedObject.Kind)
	if event.InvolvedObject.Name != "" {
		target += "/" + event.InvolvedObject.Name
	}
	source := cmp.Or(event.Source.Component, event.ReportingController)
	if host := cmp.Or(event.Source.Host, event.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, event.Type, event.Reason, target, event.InvolvedObject.FieldPath, source,
		strings.TrimSpace(event.Message), first, int64(count), event.Name,
	}
}
