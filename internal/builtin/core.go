package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// core is the group "" of pods and of what is near to them.
func core() []row {
	v1 := corev1.SchemeGroupVersion
	return []row{
		kind[corev1.Namespace]{
			version:       v1,
			plural:        "namespaces",
			shortNames:    []string{"ns"},
			clusterScoped: true,
			defaults:      defaults.Namespace,
			validate:      validation.Namespace,
			status:        &status[corev1.Namespace]{validate: validation.NamespaceStatus},
			prepareCreate: prepareNamespace,
			prepareUpdate: func(obj, old resource.Tree) { keep(obj, old, "spec", "finalizers") },
			subresources: []subresource[corev1.Namespace]{{
				Subresource: resource.Subresource{
					Name:        "finalize",
					Prepare:     func(obj, old resource.Tree) { keep(obj, old, "status") },
					ResetFields: fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
					UpdateOnly:  true,
				},
				validate: validation.NamespaceFinalizers,
			}},
			table:      tables.Namespaces(),
			selectable: []selectable{at("status.phase")},
			hooks: resource.Hooks{
				ValidateName:        apivalidation.ValidateNamespaceName,
				Finalize:            hasSpecFinalizers,
				PrepareDelete:       terminateNamespace,
				DeleteReturnsObject: true,
				AllowDelete:         refuseSystemNamespaces,
			},
		}.row(),
		kind[corev1.ConfigMap]{
			version:    v1,
			plural:     "configmaps",
			shortNames: []string{"cm"},
			validate:   validation.ConfigMap,
			table:      tables.ConfigMaps(),
		}.row(),
		kind[corev1.Secret]{
			version:    v1,
			plural:     "secrets",
			defaults:   defaults.Secret,
			validate:   validation.Secret,
			table:      tables.Secrets(),
			selectable: []selectable{at("type")},
			hooks:      resource.Hooks{Warnings: warnOfSecret},
		}.row(),
		kind[corev1.ServiceAccount]{
			version:    v1,
			plural:     "serviceaccounts",
			shortNames: []string{"sa"},
			subresources: []subresource[corev1.ServiceAccount]{{
				Subresource: resource.Subresource{Name: "token", Action: requestToken()},
			}},
			prepareCreate: stripSecretReferences,
			prepareUpdate: func(obj, _ resource.Tree) { stripSecretReferences(obj) },
			table:         tables.ServiceAccounts(),
			hooks: resource.Hooks{
				ValidateName:        apivalidation.ValidateServiceAccountName,
				Warnings:            warnOfServiceAccount,
				DeleteReturnsObject: true,
			},
		}.row(),
		pods(v1),
		bindings(v1),
		events(v1),
	}
}
