package services

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// servicesTable is the table of services.
func servicesTable() kind.Table[*corev1.Service] {
	spec := corev1.ServiceSpec{}
	return kind.Table[*corev1.Service]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Type", spec, "type"),
		kind.FieldColumn("Cluster-IP", spec, "clusterIP"),
		kind.FieldColumn("External-IP", spec, "externalIPs"),
		kind.FieldColumn("Port(s)", spec, "ports"),
		kind.AgeColumn(),
		kind.Wide(kind.FieldColumn("Selector", spec, "selector")),
	}, Cells: serviceCells}
}

func serviceCells(s *corev1.Service, now time.Time) []any {
	clusterIP := ""
	if len(s.Spec.ClusterIPs) > 0 {
		clusterIP = s.Spec.ClusterIPs[0]
	}
	return []any{
		s.Name, string(s.Spec.Type), kind.OrNone(clusterIP), externalCell(s), kind.OrNone(servicePorts(s.Spec.Ports)),
		kind.Age(s.ObjectMeta, now), labels.FormatLabels(s.Spec.Selector),
	}
}

// externalCell returns the external addresses of a service.
func externalCell(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return kind.OrNone(strings.Join(s.Spec.ExternalIPs, ","))
	case corev1.ServiceTypeLoadBalancer:
		var points []string
		for _, point := range s.Status.LoadBalancer.Ingress {
			points = append(points, point.IP, point.Hostname)
		}
		all := s.Spec.ExternalIPs
		if cell := pointsCell(points); cell != "" {
			all = append([]string{cell}, all...)
		}
		if len(all) == 0 {
			return "<pending>"
		}
		return strings.Join(all, ",")
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return "<unknown>"
}

// pointsCell returns the addresses of a load balancer, given as pairs of an IP and a host name. Of
// each pair, the first that is set is shown.
func pointsCell(pairs []string) string {
	points := map[string]bool{}
	for pair := range slices.Chunk(pairs, 2) {
		for _, point := range pair {
			if point != "" {
				points[point] = true
				break
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(points)), ",")
}

func servicePorts(ports []corev1.ServicePort) string {
	var cells []string
	for _, p := range ports {
		cell := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			cell = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, ",")
}
