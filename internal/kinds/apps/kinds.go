package apps

import (
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds returns the kinds of group apps.
func Kinds() []kind.Row {
	v1 := appsv1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*appsv1.Deployment]{
			Version:    v1,
			Plural:     "deployments",
			Pods:       "spec.template.spec",
			ShortNames: []string{"deploy"},
			Categories: []string{"all"},
			Defaults:   defaultDeployment,
			Validate:   validateDeployment,
			Status:     &kind.Status[*appsv1.Deployment]{Validate: validateDeploymentStatus, Keeps: []string{"metadata.labels"}},
			// The deployment controller copies annotations to replica sets, so their changes count.
			Generation: []string{"spec", "metadata.annotations"},
			Scale:      scaleBy(selectorOf),
			Table:      deploymentsTable(),
			Retired: []kind.Another[*appsv1.Deployment]{
				kind.In[*appsv1.Deployment, *appsv1beta2.Deployment](appsv1beta2.SchemeGroupVersion),
				kind.In[*appsv1.Deployment, *appsv1beta1.Deployment](appsv1beta1.SchemeGroupVersion),
				kind.In[*appsv1.Deployment, *extensionsv1beta1.Deployment](extensionsv1beta1.SchemeGroupVersion),
			},
			Strategy: resource.Strategy{Warnings: kind.Warnings(pods.WarnOfHostname("Pod names and hostnames"), kind.IfNew(pods.WarnOfTemplate("spec", "template")))},
		}.Row(),
		kind.Kind[*appsv1.ReplicaSet]{
			Version:    v1,
			Plural:     "replicasets",
			Pods:       "spec.template.spec",
			ShortNames: []string{"rs"},
			Categories: []string{"all"},
			Filled:     true,
			Validate:   validateReplicaSet,
			Status:     &kind.Status[*appsv1.ReplicaSet]{Validate: validateReplicaSetStatus},
			Generation: []string{"spec"},
			Scale:      scaleBy(selectorOf),
			Table:      replicaSetsTable(),
			Retired: []kind.Another[*appsv1.ReplicaSet]{
				kind.In[*appsv1.ReplicaSet, *appsv1beta2.ReplicaSet](appsv1beta2.SchemeGroupVersion),
				kind.In[*appsv1.ReplicaSet, *extensionsv1beta1.ReplicaSet](extensionsv1beta1.SchemeGroupVersion),
			},
			Strategy: resource.Strategy{Warnings: kind.Warnings(pods.WarnOfHostname("Pod names and hostnames"), kind.IfNew(pods.WarnOfTemplate("spec", "template")))},
		}.Row(),
		kind.Kind[*appsv1.StatefulSet]{
			Version:    v1,
			Plural:     "statefulsets",
			Pods:       "spec.template.spec",
			ShortNames: []string{"sts"},
			Categories: []string{"all"},
			Filled:     true,
			Validate:   validateStatefulSet,
			Status:     &kind.Status[*appsv1.StatefulSet]{Validate: validateStatefulSetStatus},
			Generation: []string{"spec"},
			Scale:      scaleBy(selectorOf),
			Table:      statefulSetsTable(),
			Retired: []kind.Another[*appsv1.StatefulSet]{
				kind.In[*appsv1.StatefulSet, *appsv1beta2.StatefulSet](appsv1beta2.SchemeGroupVersion),
				kind.In[*appsv1.StatefulSet, *appsv1beta1.StatefulSet](appsv1beta1.SchemeGroupVersion),
			},
			// Pods of a StatefulSet have host names that start with its name.
			Strategy: resource.Strategy{
				ValidateName: apivalidation.NameIsDNSLabel,
				Warnings:     kind.Warnings(kind.IfNew(pods.WarnOfTemplate("spec", "template")), warnOfStatefulSet),
			},
		}.Row(),
		kind.Kind[*appsv1.DaemonSet]{
			Version:       v1,
			Plural:        "daemonsets",
			Pods:          "spec.template.spec",
			ShortNames:    []string{"ds"},
			Categories:    []string{"all"},
			Filled:        true,
			Validate:      validateDaemonSet,
			Status:        &kind.Status[*appsv1.DaemonSet]{Validate: validateDaemonSetStatus, Prepare: keepTemplateGeneration},
			Generation:    []string{"spec"},
			PrepareCreate: startTemplateGeneration,
			PrepareUpdate: countTemplateGeneration,
			Table:         daemonSetsTable(),
			Retired: []kind.Another[*appsv1.DaemonSet]{
				kind.In[*appsv1.DaemonSet, *appsv1beta2.DaemonSet](appsv1beta2.SchemeGroupVersion),
				kind.In[*appsv1.DaemonSet, *extensionsv1beta1.DaemonSet](extensionsv1beta1.SchemeGroupVersion),
			},
			Strategy: resource.Strategy{Warnings: pods.WarnOfTemplate("spec", "template")},
		}.Row(),
		kind.Kind[*appsv1.ControllerRevision]{
			Version:  v1,
			Plural:   "controllerrevisions",
			Validate: validateControllerRevision,
			Table:    controllerRevisionsTable(),
			Retired: []kind.Another[*appsv1.ControllerRevision]{
				kind.In[*appsv1.ControllerRevision, *appsv1beta2.ControllerRevision](appsv1beta2.SchemeGroupVersion),
				kind.In[*appsv1.ControllerRevision, *appsv1beta1.ControllerRevision](appsv1beta1.SchemeGroupVersion),
			},
		}.Row(),
	}
}

// scaleBy returns the scale subresource of a workload.
func scaleBy(selectorOf func(obj resource.Tree) string) *resource.Scale {
	return &resource.Scale{
		Replicas:       []string{"spec", "replicas"},
		StatusReplicas: []string{"status", "replicas"},
		SelectorOf:     selectorOf,
	}
}

// selectorOf returns the label selector of a workload as the scale subresource shows it.
func selectorOf(obj resource.Tree) string {
	spec, _ := kind.Get(obj, "spec").(resource.Tree)
	selector, err := metav1.LabelSelectorAsSelector(kind.Decoded[appsv1.DeploymentSpec](resource.Tree{"selector": spec["selector"]}).Selector)
	if err != nil {
		return ""
	}
	return selector.String()
}
