package services

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endpointsTable is the table of endpoints.
func endpointsTable() kind.Table[*corev1.Endpoints] {
	return kind.Table[*corev1.Endpoints]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("Endpoints", corev1.Endpoints{}, "subsets"), kind.AgeColumn(),
	}, Cells: endpointsCells}
}

func endpointsCells(e *corev1.Endpoints, now time.Time) []any {
	var all []string
	for _, subset := range e.Subsets {
		for _, port := range subset.Ports {
			for _, address := range subset.Addresses {
				all = append(all, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
		if len(subset.Ports) == 0 {
			for _, address := range subset.Addresses {
				all = append(all, address.IP)
			}
		}
	}
	cell := firstOf(all)
	if len(e.Subsets) == 0 {
		cell = "<none>"
	}
	return []any{e.Name, cell, kind.Age(e.ObjectMeta, now)}
}

// endpointSlicesTable is the table of endpoint slices.
func endpointSlicesTable() kind.Table[*discoveryv1.EndpointSlice] {
	slice := discoveryv1.EndpointSlice{}
	return kind.Table[*discoveryv1.EndpointSlice]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("AddressType", slice, "addressType"),
		kind.FieldColumn("Ports", slice, "ports"),
		kind.FieldColumn("Endpoints", slice, "endpoints"),
		kind.AgeColumn(),
	}, Cells: endpointSliceCells}
}

func endpointSliceCells(s *discoveryv1.EndpointSlice, now time.Time) []any {
	var ports, addresses []string
	for _, port := range s.Ports {
		cell := "*"
		if port.Port != nil {
			cell = strconv.Itoa(int(*port.Port))
		} else if port.Name != nil {
			cell = *port.Name
		}
		ports = append(ports, cell)
	}
	for _, endpoint := range s.Endpoints {
		addresses = append(addresses, endpoint.Addresses...)
	}
	return []any{s.Name, string(s.AddressType), orUnset(firstOf(ports)), orUnset(firstOf(addresses)), kind.Age(s.ObjectMeta, now)}
}

// firstOf returns the first three elements of a list and the number of the others.
func firstOf(list []string) string {
	const shown = 3
	if len(list) <= shown {
		return strings.Join(list, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(list[:shown], ","), len(list)-shown)
}

func orUnset(cell string) string {
	if cell == "" {
		return "<unset>"
	}
	return cell
}
