package tables

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Events is the table of events.
func Events() Table[corev1.Event] {
	event := corev1.Event{}
	return Table[corev1.Event]{Columns: []metav1.TableColumnDefinition{
		fieldColumn("Last Seen", event, "lastTimestamp"),
		fieldColumn("Type", event, "type"),
		fieldColumn("Reason", event, "reason"),
		fieldColumn("Object", event, "involvedObject"),
		wide(fieldColumn("Subobject", corev1.ObjectReference{}, "fieldPath")),
		wide(fieldColumn("Source", event, "source")),
		fieldColumn("Message", event, "message"),
		wide(fieldColumn("First Seen", event, "firstTimestamp")),
		wide(fieldColumn("Count", event, "count")),
		wide(nameColumn()),
	}, Cells: eventCells}
}

func eventCells(event *corev1.Event, now time.Time) []any {
	first := since(event.FirstTimestamp.Time, now)
	if event.FirstTimestamp.IsZero() {
		first = since(event.EventTime.Time, now)
	}
	last := since(event.LastTimestamp.Time, now)
	if event.LastTimestamp.IsZero() {
		last = first
	}
	count := event.Count
	if event.Series != nil {
		last = since(event.Series.LastObservedTime.Time, now)
		count = event.Series.Count
	} else if count == 0 { // events of the new style count only when they are a series
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
