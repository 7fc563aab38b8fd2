package tables

import (
	"fmt"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ingresses is the table of ingresses.
func Ingresses() Table[networkingv1.Ingress] {
	return Table[networkingv1.Ingress]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		column("Class", "The name of the IngressClass resource that should be used for additional configuration"),
		column("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
		column("Address", "Address is a list containing ingress points for the load-balancer"),
		column("Ports", "Ports of TLS configurations that open"),
		ageColumn(),
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
	return []any{i.Name, class, hostsCell(i.Spec.Rules), pointsCell(points), ports, age(i.ObjectMeta, now)}
}

// hostsCell shows three hosts. What it says of the others counts rules, whether or
// not they have one.
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

// IngressClasses is the table of ingress classes.
func IngressClasses() Table[networkingv1.IngressClass] {
	return Table[networkingv1.IngressClass]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		column("Controller", "Controller that is responsible for handling this class"),
		column("Parameters", "A reference to a resource with additional parameters"),
		ageColumn(),
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
	return []any{name, c.Spec.Controller, parameters, age(c.ObjectMeta, now)}
}

// NetworkPolicies is the table of network policies.
func NetworkPolicies() Table[networkingv1.NetworkPolicy] {
	return Table[networkingv1.NetworkPolicy]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("Pod-Selector", networkingv1.NetworkPolicySpec{}, "podSelector"), ageColumn(),
	}, Cells: networkPolicyCells}
}

func networkPolicyCells(p *networkingv1.NetworkPolicy, now time.Time) []any {
	return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), age(p.ObjectMeta, now)}
}

// IPAddresses is the table of IP addresses. The age has no column, and so nobody sees
// it; Kubernetes forgot it.
func IPAddresses() Table[networkingv1.IPAddress] {
	return Table[networkingv1.IPAddress]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("ParentRef", networkingv1.IPAddressSpec{}, "parentRef"),
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

// ServiceCIDRs is the table of the ranges of service addresses.
func ServiceCIDRs() Table[networkingv1.ServiceCIDR] {
	return Table[networkingv1.ServiceCIDR]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("CIDRs", networkingv1.ServiceCIDRSpec{}, "cidrs"), ageColumn(),
	}, Cells: serviceCIDRCells}
}

func serviceCIDRCells(c *networkingv1.ServiceCIDR, now time.Time) []any {
	return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), age(c.ObjectMeta, now)}
}
