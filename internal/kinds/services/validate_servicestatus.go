package services

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateServiceStatus returns the errors of a load balancer's addresses.
func validateServiceStatus(s, old *corev1.Service) field.ErrorList {
	path := field.NewPath("status", "loadBalancer", "ingress")
	points := s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(points) > 0 {
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var all field.ErrorList
	var before []string
	if old != nil {
		for _, point := range old.Status.LoadBalancer.Ingress {
			before = append(before, point.IP)
		}
	}
	for i, point := range points {
		at := path.Index(i)
		if point.IP != "" {
			all = append(all, validation.IsValidIPForLegacyField(at.Child("ip"), point.IP, true, before)...)
		}
		mode := at.Child("ipMode")
		switch {
		case point.IPMode == nil && point.IP != "":
			all = append(all, field.Required(mode, "must be specified when `ip` is set"))
		case point.IPMode != nil && point.IP == "":
			all = append(all, field.Forbidden(mode, "may not be specified when `ip` is not set"))
		case point.IPMode != nil:
			all = append(all, rule.Supported(mode, *point.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		}
		all = append(all, validatePointHost(at.Child("hostname"), point.Hostname)...)
	}
	return all
}

// validatePointHost returns the errors of a load balancer's host name.
func validatePointHost(path *field.Path, host string) field.ErrorList {
	if host == "" {
		return nil
	}
	all := rule.Invalid(path, host, validation.IsDNS1123Subdomain(host))
	if isIP(host) {
		all = append(all, field.Invalid(path, host, "must be a DNS name, not an IP address"))
	}
	return all
}
