package cluster

import (
	"cmp"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EventResource is the resource of events.
var EventResource = schema.GroupResource{Resource: "events"}

// eventTTL is the lifetime of events, the default of kube-apiserver's --event-ttl.
const eventTTL = time.Hour

func events(v1 schema.GroupVersion) kind.Row {
	return kind.Kind[*corev1.Event]{
		Version:    v1,
		Plural:     "events",
		ShortNames: []string{"ev"},
		Validate:   validateEvent,
		Table:      eventsTable(),
		Selectable: []kind.Selectable{
			kind.At("involvedObject.kind"),
			kind.At("involvedObject.namespace"),
			kind.At("involvedObject.name"),
			kind.At("involvedObject.uid"),
			kind.At("involvedObject.apiVersion"),
			kind.At("involvedObject.resourceVersion"),
			kind.At("involvedObject.fieldPath"),
			kind.At("reason"),
			kind.At("reportingComponent"),
			{Label: "source", Reads: []string{"source.component", "reportingComponent"}, Value: func(obj resource.Tree) string {
				return cmp.Or(kind.Text(obj, "source", "component"), kind.Text(obj, "reportingComponent"))
			}},
			kind.At("type"),
		},
		Also:     []kind.Another[*corev1.Event]{eventsOfGroup(eventsv1.SchemeGroupVersion)},
		Strategy: resource.Strategy{CreateOnUpdate: true, TTL: eventTTL},
	}.Row()
}

// eventsOfGroup returns the version of events in group events.k8s.io, with other names for the same
// fields and stricter rules.
func eventsOfGroup(v1 schema.GroupVersion) kind.Another[*corev1.Event] {
	other := kind.In[*corev1.Event, *eventsv1.Event](v1)
	return kind.Another[*corev1.Event]{Gv: v1, Version: func(k kind.Kind[*corev1.Event], all kind.Versioning, stored *resource.Version, views []kind.Subresource[*corev1.Event]) *resource.Version {
		k.Validate = validateEventOfGroup
		version := other.Version(k, all, stored, views)
		fields := []kind.Selectable{
			kind.At("reason"),
			kind.At("regarding.kind"),
			kind.At("regarding.namespace"),
			kind.At("regarding.name"),
			kind.At("regarding.uid"),
			kind.At("regarding.apiVersion"),
			kind.At("regarding.resourceVersion"),
			kind.At("regarding.fieldPath"),
			kind.At("reportingController"),
			kind.At("type"),
		}
		version.Selectable = kind.Names(fields)
		version.Fields, version.FieldPaths = func(obj resource.Tree) map[string]string { return kind.Values(fields, obj) }, kind.Paths(fields)
		return version
	}}
}
