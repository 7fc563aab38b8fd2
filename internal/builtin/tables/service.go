package tables

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Services is the table of services.
func Services() Table[corev1.Service] {
	spec := corev1.ServiceSpec{}
	return Table[corev1.Service]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("Type", spec, "type"),
		fieldColumn("Cluster-IP", spec, "clusterIP"),
		fieldColumn("External-IP", spec, "externalIPs"),
		fieldColumn("Port(s)", spec, "ports"),
		ageColumn(),
		wide(fieldColumn("Selector", spec, "selector")),
	}, Cells: serviceCells}
}

func serviceCells(s *corev1.Service, now time.Time) []any {
	clusterIP := ""
	if len(s.Spec.ClusterIPs) > 0 {
		clusterIP = s.Spec.ClusterIPs[0]
	}
	return []any{
		s.Name, string(s.Spec.Type), orNone(clusterIP), externalCell(s), orNone(servicePorts(s.Spec.Ports)),
		age(s.ObjectMeta, now), labels.FormatLabels(s.Spec.Selector),
	}
}

// externalCell is how a service is reached from outside.
func externalCell(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orNone(strings.Join(s.Spec.ExternalIPs, ","))
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

// pointsCell are the addresses of a load balancer, given as pairs of an IP and a host
// name, of which the first that is there counts.
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
