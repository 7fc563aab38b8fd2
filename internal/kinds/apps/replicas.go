package apps

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Replicas returns the workloads of the core group.
func Replicas() []kind.Row {
	v1 := corev1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*corev1.ReplicationController]{
			Version:    v1,
			Plural:     "replicationcontrollers",
			StoredAt:   "controllers",
			Pods:       "spec.template.spec",
			ShortNames: []string{"rc"},
			Categories: []string{"all"},
			Filled:     true,
			Validate:   validateReplicationController,
			Status:     &kind.Status[*corev1.ReplicationController]{Validate: validateReplicationControllerStatus},
			Generation: []string{"spec"},
			Scale: scaleBy(func(obj resource.Tree) string {
				spec, _ := obj["spec"].(resource.Tree)
				return labels.SelectorFromSet(kind.Decoded[corev1.ReplicationControllerSpec](resource.Tree{"selector": spec["selector"]}).Selector).String()
			}),
			Table: replicationControllersTable(),
			Selectable: []kind.Selectable{{Label: "status.replicas", Value: func(obj resource.Tree) string {
				replicas, _ := kind.Get(obj, "status", "replicas").(int64)
				return fmt.Sprint(replicas)
			}}},
			Strategy: resource.Strategy{
				Warnings: kind.Warnings(pods.WarnOfHostname("Pod names and hostnames"), warnOfController),
			},
			Deletion: resource.Deletion{
				OrphanByDefault: true,
			},
		}.Row(),
		kind.Kind[*corev1.PodTemplate]{
			Version:    v1,
			Plural:     "podtemplates",
			Pods:       "template.spec",
			Filled:     true,
			Validate:   validatePodTemplate,
			Generation: []string{"template"},
			Table:      podTemplatesTable(),
			Strategy:   resource.Strategy{Warnings: kind.IfNew(pods.WarnOfTemplate("template"))},
			Deletion:   resource.Deletion{ReturnsObject: true},
		}.Row(),
	}
}

// warnOfController warns of the pod template. As in Kubernetes, updates are checked by their old
// template.
func warnOfController(obj, old resource.Tree) []string {
	template := pods.WarnOfTemplate("spec", "template")
	if old == nil {
		return template(obj, nil)
	}
	return kind.IfNew(func(_, _ resource.Tree) []string { return template(old, nil) })(obj, old)
}
