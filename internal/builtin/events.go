package builtin

import (
	"cmp"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// eventTTL is how long events live, as kube-apiserver's --event-ttl has it.
const eventTTL = time.Hour

func events(v1 schema.GroupVersion) row {
	return kind[corev1.Event]{
		version:    v1,
		plural:     "events",
		shortNames: []string{"ev"},
		validate:   validation.Event,
		table:      tables.Events(),
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
				return cmp.Or(text(obj, "source", "component"), text(obj, "reportingComponent"))
			}},
			at("type"),
		},
		also:  []another[corev1.Event]{eventsOfGroup(eventsv1.SchemeGroupVersion)},
		hooks: resource.Hooks{CreateOnUpdate: true, TTL: eventTTL},
	}.row()
}

// eventsOfGroup are events in the group that they moved to: other names for the
// same fields, and stricter rules.
func eventsOfGroup(v1 schema.GroupVersion) another[corev1.Event] {
	other := in[corev1.Event, eventsv1.Event](v1)
	return another[corev1.Event]{v1, func(k kind[corev1.Event], stored *resource.Version, views []subresource[corev1.Event]) *resource.Version {
		k.validate = validation.EventOfGroup
		version := other.version(k, stored, views)
		fields := []selectable{
			at("reason"),
			at("regarding.kind"),
			at("regarding.namespace"),
			at("regarding.name"),
			at("regarding.uid"),
			at("regarding.apiVersion"),
			at("regarding.resourceVersion"),
			at("regarding.fieldPath"),
			at("reportingController"),
			at("type"),
		}
		version.Selectable = names(fields)
		version.Fields = func(obj resource.Tree) map[string]string { return values(fields, obj) }
		return version
	}}
}
