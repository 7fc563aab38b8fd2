package services

import (
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ingressesTable is the table of ingresses.
func ingressesTable() kind.Table[*networkingv1.Ingress] {
	return kind.Table[*networkingv1.Ingress]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Class", "The name of the IngressClass resource that should be used for additional configuration"),
		kind.Column("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
		kind.Column("Address", "Address is a list containing ingress points for the load-balancer"),
		kind.Column("Ports", "Ports of TLS configurations that open"),
		kind.AgeColumn(),
	}, Cells: ingressCells}
}

func ingressCells(i *networkingv1.Ingress, now time.Time) []any {
	class, ports := "<none>", "80"
	if i.Spec.IngressClassName != nil {
		class = *i.Spec.IngressClassName
	}
	if len(i.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	var points []string
	for _, point := range i.Status.LoadBalancer.Ingress {
		points = append(points, point.IP, point.Hostname)
	}
	return []any{i.Name, class, hostsCell(i.Spec.Rules), pointsCell(points), ports, kind.Age(i.ObjectMeta, now)}
}

// hostsCell returns the first three hosts and the number of further rules, including those without
// a host.
func hostsCell(rules []networkingv1.IngressRule) string {
	const shown = 3
	var hosts []string
	more := false
	for _, rule := range rules {
		more = more || len(hosts) == shown
		if !more && rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	switch {
	case len(hosts) == 0:
		return "*"
	case more:
		return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-shown)
	}
	return strings.Join(hosts, ",")
}

// ingressClassesTable is the table of ingress classes.
func ingressClassesTable() kind.Table[*networkingv1.IngressClass] {
	return kind.Table[*networkingv1.IngressClass]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Controller", "Controller that is responsible for handling this class"),
		kind.Column("Parameters", "A reference to a resource with additional parameters"),
		kind.AgeColumn(),
	}, Cells: ingressClassCells}
}

func ingressClassCells(c *networkingv1.IngressClass, now time.Time) []any {
	name, parameters := c.Name, "<none>"
	if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
		name += " (default)"
	}
	if p := c.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{name, c.Spec.Controller, parameters, kind.Age(c.ObjectMeta, now)}
}

// networkPoliciesTable is the table of network policies.
func networkPoliciesTable() kind.Table[*networkingv1.NetworkPolicy] {
	return kind.Table[*networkingv1.NetworkPolicy]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("Pod-Selector", networkingv1.NetworkPolicySpec{}, "podSelector"), kind.AgeColumn(),
	}, Cells: networkPolicyCells}
}

func networkPolicyCells(p *networkingv1.NetworkPolicy, now time.Time) []any {
	return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), kind.Age(p.ObjectMeta, now)}
}

// ipAddressesTable is the table of IP addresses. As in Kubernetes, its rows have an age for which
// there is no column.
func ipAddressesTable() kind.Table[*networkingv1.IPAddress] {
	return kind.Table[*networkingv1.IPAddress]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("ParentRef", networkingv1.IPAddressSpec{}, "parentRef"),
	}, Cells: ipAddressCells}
}

func ipAddressCells(a *networkingv1.IPAddress, now time.Time) []any {
	parent := "<none>"
	if ref := a.Spec.ParentRef; ref != nil {
		parent = strings.ToLower(schema.GroupResource{Group: ref.Group, Resource: ref.Resource}.String())
		if ref.Namespace != "" {
			parent += "/" + ref.Namespace
		}
		parent += "/" + ref.Name
	}
	return []any{a.Name, parent}
}

// serviceCIDRsTable is the table of the ranges of service addresses.
func serviceCIDRsTable() kind.Table[*networkingv1.ServiceCIDR] {
	return kind.Table[*networkingv1.ServiceCIDR]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("CIDRs", networkingv1.ServiceCIDRSpec{}, "cidrs"), kind.AgeColumn(),
	}, Cells: serviceCIDRCells}
}

func serviceCIDRCells(c *networkingv1.ServiceCIDR, now time.Time) []any {
	return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), kind.Age(c.ObjectMeta, now)}
}
