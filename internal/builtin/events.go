package builtin

import (
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// eventTTL is how long events live, as kube-apiserver's --event-ttl has it.
const eventTTL = time.Hour

func events(v1 schema.GroupVersion) *resource.Definition {
	event := corev1.Event{}
	return kind[corev1.Event]{
		version:    v1,
		plural:     "events",
		shortNames: []string{"ev"},
		validate:   validateEvent,
		columns: []metav1.TableColumnDefinition{
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
		},
		cells: eventCells,
		selectable: []selectable{
			at("involvedObject.kind"),
			at("involvedObject.namespace"),
			at("involvedObject.name"),
			at("involvedObject.uid"),
			at("involvedObject.apiVersion"),
			at("involvedObject.resourceVersion"),
			at("involvedObject.fieldPath"),
			at("reason"),
			at("reportingComponent"),
			{"source", func(obj resource.Tree) string {
				return firstOf(text(obj, "source", "component"), text(obj, "reportingComponent"))
			}},
			at("type"),
		},
		hooks: resource.Hooks{CreateOnUpdate: true, TTL: eventTTL},
	}.definition()
}

// Limits of events that have an eventTime.
const (
	maxEventName    = 128 // of reportingInstance, action and reason
	maxEventMessage = 1024
)

// validateEvent checks old events for little, and those of the new style, which
// have an eventTime, for who reports them and why.
func validateEvent(event, _ *corev1.Event) field.ErrorList {
	var all field.ErrorList
	involved := event.InvolvedObject.Namespace
	mismatch := field.Invalid(field.NewPath("involvedObject", "namespace"), involved, "does not match event.namespace")
	if event.EventTime.IsZero() {
		// Events of objects without a namespace are kept in default.
		if involved != event.Namespace && (involved != "" || event.Namespace != metav1.NamespaceDefault) {
			all = append(all, mismatch)
		}
		return all
	}
	if involved == "" && event.Namespace != metav1.NamespaceDefault && event.Namespace != metav1.NamespaceSystem {
		all = append(all, mismatch)
	}
	controller := field.NewPath("reportingComponent")
	if event.ReportingController == "" {
		all = append(all, field.Required(controller, ""))
	}
	all = append(all, validateQualified(controller, event.ReportingController)...)
	for _, f := range []struct{ name, value string }{
		{"reportingInstance", event.ReportingInstance}, {"action", event.Action}, {"reason", event.Reason},
	} {
		if f.value == "" {
			all = append(all, field.Required(field.NewPath(f.name), ""))
		}
		all = append(all, validateLength(f.name, f.value, maxEventName)...)
	}
	return append(all, validateLength("message", event.Message, maxEventMessage)...)
}

func validateLength(name, value string, limit int) field.ErrorList {
	if len(value) <= limit {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %v characters", limit))}
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
	source := firstOf(event.Source.Component, event.ReportingController)
	if host := firstOf(event.Source.Host, event.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, event.Type, event.Reason, target, event.InvolvedObject.FieldPath, source,
		strings.TrimSpace(event.Message), first, int64(count), event.Name,
	}
}

func firstOf(candidates ...string) string {
	for _, s := range candidates {
		if s != "" {
			return s
		}
	}
	return ""
}
