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
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apps is the group of what keeps pods running.
func apps() []row {
	v1 := appsv1.SchemeGroupVersion
	return []row{
		kind[appsv1.Deployment]{
			version:    v1,
			plural:     "deployments",
			pods:       "spec.template.spec",
			shortNames: []string{"deploy"},
			categories: []string{"all"},
			defaults:   defaults.Deployment,
			validate:   validation.Deployment,
			status:     &status[appsv1.Deployment]{validate: validation.DeploymentStatus, keeps: []string{"metadata.labels"}},
			// Annotations are copied to replica sets, and so they count.
			generation: []string{"spec", "metadata.annotations"},
			scale:      scaleBy(selectorOf),
			table:      tables.Deployments(),
			retired: []another[appsv1.Deployment]{
				in[appsv1.Deployment, appsv1beta2.Deployment](appsv1beta2.SchemeGroupVersion),
				in[appsv1.Deployment, appsv1beta1.Deployment](appsv1beta1.SchemeGroupVersion),
				in[appsv1.Deployment, extensionsv1beta1.Deployment](extensionsv1beta1.SchemeGroupVersion),
			},
			hooks: resource.Hooks{Warnings: warnings(warnOfHostname("Pod names and hostnames"), ifNew(warnOfTemplate("spec", "template")))},
		}.row(),
		kind[appsv1.ReplicaSet]{
			version:    v1,
			plural:     "replicasets",
			pods:       "spec.template.spec",
			shortNames: []string{"rs"},
			categories: []string{"all"},
			defaults:   fill[appsv1.ReplicaSet],
			validate:   validation.ReplicaSet,
			status:     &status[appsv1.ReplicaSet]{validate: validation.ReplicaSetStatus},
			generation: []string{"spec"},
			scale:      scaleBy(selectorOf),
			table:      tables.ReplicaSets(),
			retired: []another[appsv1.ReplicaSet]{
				in[appsv1.ReplicaSet, appsv1beta2.ReplicaSet](appsv1beta2.SchemeGroupVersion),
				in[appsv1.ReplicaSet, extensionsv1beta1.ReplicaSet](extensionsv1beta1.SchemeGroupVersion),
			},
			hooks: resource.Hooks{Warnings: warnings(warnOfHostname("Pod names and hostnames"), ifNew(warnOfTemplate("spec", "template")))},
		}.row(),
		kind[appsv1.StatefulSet]{
			version:    v1,
			plural:     "statefulsets",
			pods:       "spec.template.spec",
			shortNames: []string{"sts"},
			categories: []string{"all"},
			defaults:   fill[appsv1.StatefulSet],
			validate:   validation.StatefulSet,
			status:     &status[appsv1.StatefulSet]{validate: validation.StatefulSetStatus},
			generation: []string{"spec"},
			scale:      scaleBy(selectorOf),
			table:      tables.StatefulSets(),
			retired: []another[appsv1.StatefulSet]{
				in[appsv1.StatefulSet, appsv1beta2.StatefulSet](appsv1beta2.SchemeGroupVersion),
				in[appsv1.StatefulSet, appsv1beta1.StatefulSet](appsv1beta1.SchemeGroupVersion),
			},
			// Its pods are hosts of that name.
			hooks: resource.Hooks{
				ValidateName: apivalidation.NameIsDNSLabel,
				Warnings:     warnings(ifNew(warnOfTemplate("spec", "template")), warnOfStatefulSet),
			},
		}.row(),
		kind[appsv1.DaemonSet]{
			version:       v1,
			plural:        "daemonsets",
			pods:          "spec.template.spec",
			shortNames:    []string{"ds"},
			categories:    []string{"all"},
			defaults:      fill[appsv1.DaemonSet],
			validate:      validation.DaemonSet,
			status:        &status[appsv1.DaemonSet]{validate: validation.DaemonSetStatus, prepare: keepTemplateGeneration},
			generation:    []string{"spec"},
			prepareCreate: startTemplateGeneration,
			prepareUpdate: countTemplateGeneration,
			table:         tables.DaemonSets(),
			retired: []another[appsv1.DaemonSet]{
				in[appsv1.DaemonSet, appsv1beta2.DaemonSet](appsv1beta2.SchemeGroupVersion),
				in[appsv1.DaemonSet, extensionsv1beta1.DaemonSet](extensionsv1beta1.SchemeGroupVersion),
			},
			hooks: resource.Hooks{Warnings: warnOfTemplate("spec", "template")},
		}.row(),
		kind[appsv1.ControllerRevision]{
			version:  v1,
			plural:   "controllerrevisions",
			validate: validation.ControllerRevision,
			table:    tables.ControllerRevisions(),
			retired: []another[appsv1.ControllerRevision]{
				in[appsv1.ControllerRevision, appsv1beta2.ControllerRevision](appsv1beta2.SchemeGroupVersion),
				in[appsv1.ControllerRevision, appsv1beta1.ControllerRevision](appsv1beta1.SchemeGroupVersion),
			},
		}.row(),
	}
}

// scaleBy is how what has replicas of a pod is scaled.
func scaleBy(selectorOf func(obj resource.Tree) string) *resource.Scale {
	return &resource.Scale{
		Replicas:       []string{"spec", "replicas"},
		StatusReplicas: []string{"status", "replicas"},
		SelectorOf:     selectorOf,
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
