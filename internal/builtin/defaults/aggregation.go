package defaults

import apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

// APIService fills in at which port a server is found.
func APIService(s *apiregistrationv1.APIService) {
	if s.Spec.Service != nil {
		set(&s.Spec.Service.Port, 443)
	}
}
