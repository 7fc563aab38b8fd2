package cluster

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/api/validation/path"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Aggregation returns the kinds of group apiregistration.k8s.io.
func Aggregation() []kind.Row {
	return []kind.Row{
		kind.Kind[*apiregistrationv1.APIService]{
			Version:       apiregistrationv1.SchemeGroupVersion,
			Plural:        "apiservices",
			StoredAt:      "apiregistration.k8s.io/apiservices",
			Categories:    []string{"api-extensions"},
			ClusterScoped: true,
			Defaults:      defaultAPIService,
			Validate:      validateAPIService,
			Status:        &kind.Status[*apiregistrationv1.APIService]{Validate: validateAPIServiceStatus, Keeps: kind.ClientMetadata},
			PrepareCreate: func(obj resource.Tree) {
				if kind.Get(obj, "spec", "service") == nil {
					obj["status"] = availableHere()
				}
			},
			Table:     apiServicesTable(),
			Versioned: true,
			Strategy:  resource.Strategy{ValidateName: path.ValidatePathSegmentName},
		}.Row(),
	}
}

// availableHere is the status of API services without a service, which this server serves itself.
func availableHere() resource.Tree {
	return resource.Tree{"conditions": []any{resource.Tree{
		"type":               string(apiregistrationv1.Available),
		"status":             string(apiregistrationv1.ConditionTrue),
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		"reason":             "Local",
		"message":            "Local APIServices are always available",
	}}}
}
