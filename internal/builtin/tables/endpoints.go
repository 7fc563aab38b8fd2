package tables

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Endpoints is the table of endpoints.
func Endpoints() Table[corev1.Endpoints] {
	return Table[corev1.Endpoints]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("Endpoints", corev1.Endpoints{}, "subsets"), ageColumn(),
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
	return []any{e.Name, cell, age(e.ObjectMeta, now)}
}

// EndpointSlices is the table of endpoint slices.
func EndpointSlices() Table[discoveryv1.EndpointSlice] {
	slice := discoveryv1.EndpointSlice{}
	return Table[discoveryv1.EndpointSlice]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("AddressType", slice, "addressType"),
		fieldColumn("Ports", slice, "ports"),
		fieldColumn("Endpoints", slice, "endpoints"),
		ageColumn(),
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
	return []any{s.Name, string(s.AddressType), orUnset(firstOf(ports)), orUnset(firstOf(addresses)), age(s.ObjectMeta, now)}
}

// firstOf shows three of a list, and how many more there are.
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
