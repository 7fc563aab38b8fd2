package cluster

import (
	"github.com/kapok-dev/kapok/internal/kinds/access"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Core returns kinds of the core group: namespaces, config maps, secrets, service accounts and
// events.
func Core() []kind.Row {
	v1 := corev1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*corev1.Namespace]{
			Version:       v1,
			Plural:        "namespaces",
			ShortNames:    []string{"ns"},
			ClusterScoped: true,
			Defaults:      defaultNamespace,
			Validate:      validateNamespace,
			Status:        &kind.Status[*corev1.Namespace]{Validate: validateNamespaceStatus},
			PrepareCreate: prepareNamespace,
			PrepareUpdate: func(obj, old resource.Tree) { kind.Keep(obj, old, "spec", "finalizers") },
			Subresources: []kind.Subresource[*corev1.Namespace]{{
				Subresource: resource.Subresource{
					Name:        "finalize",
					Prepare:     func(obj, old resource.Tree) { kind.Keep(obj, old, "status") },
					ResetFields: fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
					UpdateOnly:  true,
				},
				Validate: validateNamespaceFinalizers,
			}},
			Table:      namespacesTable(),
			Selectable: []kind.Selectable{kind.At("status.phase")},
			Strategy: resource.Strategy{
				ValidateName: apivalidation.ValidateNamespaceName,
			},
			Deletion: resource.Deletion{
				ReturnsObject: true,
				Allow:         refuseSystemNamespaces,
				Finalization: &resource.Finalization{
					Waits: hasSpecFinalizers,
					Begin: terminateNamespace,
				},
			},
		}.Row(),
		kind.Kind[*corev1.ConfigMap]{
			Version:    v1,
			Plural:     "configmaps",
			ShortNames: []string{"cm"},
			Validate:   validateConfigMap,
			Table:      configMapsTable(),
		}.Row(),
		kind.Kind[*corev1.Secret]{
			Version:    v1,
			Plural:     "secrets",
			Defaults:   defaultSecret,
			Validate:   validateSecret,
			Table:      secretsTable(),
			Selectable: []kind.Selectable{kind.At("type")},
			Strategy:   resource.Strategy{Warnings: warnOfSecret},
		}.Row(),
		kind.Kind[*corev1.ServiceAccount]{
			Version:    v1,
			Plural:     "serviceaccounts",
			ShortNames: []string{"sa"},
			Subresources: []kind.Subresource[*corev1.ServiceAccount]{{
				Subresource: resource.Subresource{Name: "token", Action: access.RequestToken()},
			}},
			PrepareCreate: access.StripSecretReferences,
			PrepareUpdate: func(obj, _ resource.Tree) { access.StripSecretReferences(obj) },
			Table:         serviceAccountsTable(),
			Strategy: resource.Strategy{
				ValidateName: apivalidation.ValidateServiceAccountName,
				Warnings:     access.WarnOfServiceAccount,
			},
			Deletion: resource.Deletion{
				ReturnsObject: true,
			},
		}.Row(),
		pods.Pods(v1),
		pods.Bindings(v1),
		events(v1),
	}
}
