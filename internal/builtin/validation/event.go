package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of events that have an eventTime.
const (
	maxEventName    = 128 // of reportingInstance, action and reason
	maxEventMessage = 1024
)

// Event checks old events for little, and those of the new style, which
// have an eventTime, for who reports them and why.
func Event(event, _ *corev1.Event) field.ErrorList {
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
