package versions

import (
	"sync"

	"github.com/kapok-dev/kapok/internal/kinds/access"
	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/autoscaling"
	"github.com/kapok-dev/kapok/internal/kinds/batch"
	"github.com/kapok-dev/kapok/internal/kinds/certificates"
	"github.com/kapok-dev/kapok/internal/kinds/cluster"
	"github.com/kapok-dev/kapok/internal/kinds/defaults"
	"github.com/kapok-dev/kapok/internal/kinds/devices"
	"github.com/kapok-dev/kapok/internal/kinds/flow"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/kinds/storage"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)

// Fill applies the defaults of an object, a pointer to a Go type of k8s.io/api or to a list of
// them. Types are visited from the outside in, each with its own function; that of a pod's spec
// includes all types within.
func Fill(obj any) { allTypes().VisitAll(obj) }

var allTypes = sync.OnceValue(func() *defaults.Functions {
	return defaults.New(
		pods.Defaults, cluster.Defaults, services.Defaults, apps.Defaults, batch.Defaults, autoscaling.Defaults, services.NetworkingDefaults, access.Defaults, storage.Defaults,
		policies.Defaults, flow.Defaults, devices.Defaults, certificates.Defaults, definitionTypes,
	)
})

// definitionTypes registers the library's defaults of CustomResourceDefinitions.
func definitionTypes(f *defaults.Functions) {
	defaults.Whole(f, apiextensionsv1.SetObjectDefaults_CustomResourceDefinition)
	defaults.Whole(f, apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition)
}
