package cluster

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// defaultAPIService sets the port of the service.
func defaultAPIService(s *apiregistrationv1.APIService) {
	if s.Spec.Service != nil {
		defaults.Pointer(&s.Spec.Service.Port, 443)
	}
}
