package builtin

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// replicas has the older kinds of the group "" that make pods.
func replicas() []row {
	v1 := corev1.SchemeGroupVersion
	return []row{
		kind[corev1.ReplicationController]{
			version:    v1,
			plural:     "replicationcontrollers",
			pods:       "spec.template.spec",
			shortNames: []string{"rc"},
			categories: []string{"all"},
			defaults:   fill[corev1.ReplicationController],
			validate:   validation.ReplicationController,
			status:     &status[corev1.ReplicationController]{validate: validation.ReplicationControllerStatus},
			generation: []string{"spec"},
			scale: scaleBy(func(obj resource.Tree) string {
				spec, _ := obj["spec"].(resource.Tree)
				return labels.SelectorFromSet(decoded[corev1.ReplicationControllerSpec](resource.Tree{"selector": spec["selector"]}).Selector).String()
			}),
			table: tables.ReplicationControllers(),
			selectable: []selectable{{"status.replicas", func(obj resource.Tree) string {
				replicas, _ := get(obj, "status", "replicas").(int64)
				return fmt.Sprint(replicas)
			}}},
			hooks: resource.Hooks{
				OrphanByDefault: true,
				Warnings:        warnings(warnOfHostname("Pod names and hostnames"), warnOfController),
			},
		}.row(),
		kind[corev1.PodTemplate]{
			version:    v1,
			plural:     "podtemplates",
			pods:       "template.spec",
			defaults:   fill[corev1.PodTemplate],
			validate:   validation.PodTemplate,
			generation: []string{"template"},
			table:      tables.PodTemplates(),
			hooks:      resource.Hooks{DeleteReturnsObject: true, Warnings: ifNew(warnOfTemplate("template"))},
		}.row(),
	}
}

// warnOfController looks, on update, at the template of before, as Kubernetes does.
func warnOfController(obj, old resource.Tree) []string {
	template := warnOfTemplate("spec", "template")
	if old == nil {
		return template(obj, nil)
	}
	return ifNew(func(_, _ resource.Tree) []string { return template(old, nil) })(obj, old)
}
