package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apps is the group of what keeps pods running.
func apps() []row {
	v1 := appsv1.SchemeGroupVersion
	return []row{
		kind[appsv1.Deployment]{
			version:    v1,
			plural:     "deployments",
			shortNames: []string{"deploy"},
			categories: []string{"all"},
			defaults:   defaults.Deployment,
			validate:   validation.Deployment,
			status:     &status[appsv1.Deployment]{validate: validation.DeploymentStatus, keeps: []string{"metadata.labels"}},
			// Annotations are copied to replica sets, and so they count.
			generation: []string{"spec", "metadata.annotations"},
			scale: &resource.Scale{
				Replicas:       []string{"spec", "replicas"},
				StatusReplicas: []string{"status", "replicas"},
				SelectorOf:     selectorOf,
			},
			table: tables.Deployments(),
			retired: []another[appsv1.Deployment]{
				in[appsv1.Deployment, appsv1beta2.Deployment](appsv1beta2.SchemeGroupVersion),
				in[appsv1.Deployment, appsv1beta1.Deployment](appsv1beta1.SchemeGroupVersion),
				in[appsv1.Deployment, extensionsv1beta1.Deployment](extensionsv1beta1.SchemeGroupVersion),
			},
			hooks: resource.Hooks{Warnings: warnOfHostname("Pod names and hostnames")},
		}.row(),
	}
}

// selectorOf is the label selector of a workload as scale shows it.
func selectorOf(obj resource.Tree) string {
	spec, _ := get(obj, "spec").(resource.Tree)
	selector, err := metav1.LabelSelectorAsSelector(decoded[appsv1.DeploymentSpec](resource.Tree{"selector": spec["selector"]}).Selector)
	if err != nil {
		return ""
	}
	return selector.String()
}
