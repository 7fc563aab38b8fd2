package cluster

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of events that have an eventTime.
const (
	maxEventName    = 128 // for reportingInstance, action and reason
	maxEventMessage = 1024
)

// validateEvent returns the errors of an event. Events with an eventTime, the new style, must also
// name their reporter and reason.
func validateEvent(event, _ *corev1.Event) field.ErrorList {
	return validateOldEvent(event, "reportingComponent")
}

// validateEventOfGroup returns the errors of an event written through events.k8s.io/v1: it must not
// have fields of the old style, and only its series may change.
func validateEventOfGroup(event, old *corev1.Event) field.ErrorList {
	all := validateOldEvent(event, "reportingController")
	if old != nil {
		return append(all, validateEventUpdate(event, old)...)
	}
	all = append(all, validateEventSeries(event.Series)...)
	if event.EventTime.IsZero() {
		all = append(all, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		all = append(all, field.Invalid(field.NewPath("type"), "", "has invalid value: "+event.Type))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !event.FirstTimestamp.IsZero()},
		{"lastTimestamp", !event.LastTimestamp.IsZero()},
		{"count", event.Count != 0},
		{"source", event.Source != corev1.EventSource{}},
	} {
		if f.set {
			all = append(all, field.Invalid(field.NewPath(f.name), "", "needs to be unset"))
		}
	}
	return all
}

func validateEventUpdate(event, old *corev1.Event) field.ErrorList {
	var all field.ErrorList
	if s, before := event.Series, old.Series; (s == nil) != (before == nil) || s != nil && *s != *before {
		all = append(all, validateEventSeries(s)...)
	}
	for _, f := range []struct {
		name     string
		now, old any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject},
		{"reason", event.Reason, old.Reason},
		{"message", event.Message, old.Message},
		{"source", event.Source, old.Source},
		{"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", event.LastTimestamp, old.LastTimestamp},
		{"count", event.Count, old.Count},
		{"reason", event.Reason, old.Reason}, // reported twice, as in Kubernetes
		{"type", event.Type, old.Type},
	} {
		all = append(all, rule.ValidateImmutable(f.now, f.old, field.NewPath(f.name))...)
	}
	if !event.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		all = append(all, rule.ValidateImmutable(event.EventTime, old.EventTime, field.NewPath("eventTime"))...)
	}
	for _, f := range []struct {
		name     string
		now, old any
	}{
		{"action", event.Action, old.Action},
		{"related", event.Related, old.Related},
		{"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		all = append(all, rule.ValidateImmutable(f.now, f.old, field.NewPath(f.name))...)
	}
	return all
}

func validateEventSeries(series *corev1.EventSeries) field.ErrorList {
	var all field.ErrorList
	if series == nil {
		return nil
	}
	if series.Count < 2 {
		all = append(all, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if series.LastObservedTime.IsZero() {
		all = append(all, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return all
}

// validateOldEvent returns the errors that both groups report, with different names for the
// reporter.
func validateOldEvent(event *corev1.Event, reporter string) field.ErrorList {
	var all field.ErrorList
	involved := event.InvolvedObject.Namespace
	mismatch := field.Invalid(field.NewPath("involvedObject", "namespace"), involved, "does not match event.namespace")
	if event.EventTime.IsZero() {
		// Events of cluster-scoped objects are in the namespace default.
		if involved != event.Namespace && (involved != "" || event.Namespace != metav1.NamespaceDefault) {
			all = append(all, mismatch)
		}
		return all
	}
	if involved == "" && event.Namespace != metav1.NamespaceDefault && event.Namespace != metav1.NamespaceSystem {
		all = append(all, mismatch)
	}
	controller := field.NewPath(reporter)
	if event.ReportingController == "" {
		all = append(all, field.Required(controller, ""))
	}
	all = append(all, rule.ValidateQualifiedName(controller, event.ReportingController)...)
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
