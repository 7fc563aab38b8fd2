package builtin

import (
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/api/validation/path"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// aggregation is the group of which group versions are served, and where.
func aggregation() []row {
	return []row{
		kind[apiregistrationv1.APIService]{
			version:       apiregistrationv1.SchemeGroupVersion,
			plural:        "apiservices",
			categories:    []string{"api-extensions"},
			clusterScoped: true,
			defaults:      defaults.APIService,
			validate:      validation.APIService,
			status:        &status[apiregistrationv1.APIService]{validate: validation.APIServiceStatus, keeps: clientMetadata},
			prepareCreate: func(obj resource.Tree) {
				if get(obj, "spec", "service") == nil {
					obj["status"] = availableHere()
				}
			},
			table:     tables.APIServices(),
			versioned: true,
			hooks:     resource.Hooks{ValidateName: path.ValidatePathSegmentName},
		}.row(),
	}
}

// availableHere is the status of what this server serves itself.
func availableHere() resource.Tree {
	return resource.Tree{"conditions": []any{resource.Tree{
		"type":               string(apiregistrationv1.Available),
		"status":             string(apiregistrationv1.ConditionTrue),
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		"reason":             "Local",
		"message":            "Local APIServices are always available",
	}}}
}
