package tables

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// APIServices is the table of the group versions that are served, here or elsewhere.
func APIServices() Table[apiregistrationv1.APIService] {
	return Table[apiregistrationv1.APIService]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		column("Service", "The reference to the service that hosts this API endpoint."),
		column("Available", "Whether this service is available."),
		ageColumn(),
	}, Cells: apiServiceCells}
}

func apiServiceCells(s *apiregistrationv1.APIService, now time.Time) []any {
	service := "Local"
	if at := s.Spec.Service; at != nil {
		service = at.Namespace + "/" + at.Name
	}
	available := string(apiregistrationv1.ConditionUnknown)
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		available = string(c.Status)
		if c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			available = fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
		break
	}
	return []any{s.Name, service, available, age(s.ObjectMeta, now)}
}
