package builtin

import (
	"cmp"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
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
		hooks: resource.Hooks{CreateOnUpdate: true, TTL: eventTTL},
	}.row()
}
