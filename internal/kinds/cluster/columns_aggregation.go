package cluster

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// apiServicesTable is the table of API services.
func apiServicesTable() kind.Table[*apiregistrationv1.APIService] {
	return kind.Table[*apiregistrationv1.APIService]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Service", "The reference to the service that hosts this API endpoint."),
		kind.Column("Available", "Whether this service is available."),
		kind.AgeColumn(),
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
	return []any{s.Name, service, available, kind.Age(s.ObjectMeta, now)}
}
