package services

import (
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ingressClassAnnotation is the annotation that names the class of an ingress without
// spec.ingressClassName.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

func validateIngress(i, old *networkingv1.Ingress) field.ErrorList {
	spec, path := &i.Spec, field.NewPath("spec")
	var all field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		all = append(all, field.Invalid(path, rule.AsInternal(spec.Rules), "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		all = append(all, validateBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	lenient := old != nil && slices.ContainsFunc(old.Spec.Rules, func(rule networkingv1.IngressRule) bool {
		return strings.Contains(rule.Host, "*") && len(validateRuleValue(&rule, nil)) > 0
	})
	for i := range spec.Rules {
		all = append(all, validateRule(&spec.Rules[i], lenient, path.Child("rules").Index(i))...)
	}
	lenient = old != nil && slices.ContainsFunc(old.Spec.TLS, func(tls networkingv1.IngressTLS) bool {
		return len(validateSecretName(tls.SecretName, nil)) > 0
	})
	for i, tls := range spec.TLS {
		at := path.Child("tls").Index(i)
		for i, host := range tls.Hosts {
			all = append(all, validateHost(host, at.Child("hosts").Index(i))...)
		}
		if !lenient {
			all = append(all, validateSecretName(tls.SecretName, at.Child("secretName"))...)
		}
	}
	if class := spec.IngressClassName; class != nil {
		all = append(all, rule.Invalid(path.Child("ingressClassName"), *class, apivalidation.NameIsDNSSubdomain(*class, false))...)
		annotation, annotated := i.Annotations[ingressClassAnnotation]
		if old == nil && annotated && annotation != *class {
			all = append(all, field.Invalid(field.NewPath("annotations").Child(ingressClassAnnotation), annotation,
				"must match `ingressClassName` when both are specified"))
		}
	}
	return all
}

func validateRule(rule *networkingv1.IngressRule, lenient bool, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if rule.Host != "" {
		if isIP(rule.Host) {
			all = append(all, field.Invalid(path.Child("host"), rule.Host, "must be a DNS name, not an IP address"))
		}
		all = append(all, validateHost(rule.Host, path.Child("host"))...)
	}
	if lenient && strings.Contains(rule.Host, "*") {
		return all
	}
	return append(all, validateRuleValue(rule, path)...)
}

// validateHost accepts host names whose first label may be a wildcard.
func validateHost(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return rule.Invalid(path, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return rule.Invalid(path, host, validation.IsDNS1123Subdomain(host))
}

func validateSecretName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	return rule.Invalid(path, name, apivalidation.NameIsDNSSubdomain(name, false))
}

func validateRuleValue(rule *networkingv1.IngressRule, path *field.Path) field.ErrorList {
	if rule.HTTP == nil {
		return nil
	}
	var all field.ErrorList
	path = path.Child("http", "paths")
	if len(rule.HTTP.Paths) == 0 {
		all = append(all, field.Required(path, ""))
	}
	for i := range rule.HTTP.Paths {
		all = append(all, validateHTTPPath(&rule.HTTP.Paths[i], path.Index(i))...)
	}
	return all
}

func validateHTTPPath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	all := rule.Supported(path.Child("pathType"), *p.PathType,
		networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	at := path.Child("path")
	exact := *p.PathType == networkingv1.PathTypeExact || *p.PathType == networkingv1.PathTypePrefix
	if len(all) == 0 && !strings.HasPrefix(p.Path, "/") && (exact || p.Path != "") {
		all = append(all, field.Invalid(at, p.Path, "must be an absolute path"))
	}
	if exact {
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, part) {
				all = append(all, field.Invalid(at, p.Path, "must not contain '"+part+"'"))
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, end) {
				all = append(all, field.Invalid(at, p.Path, "cannot end with '"+end+"'"))
			}
		}
	}
	return append(all, validateBackend(&p.Backend, path.Child("backend"))...)
}

func validateBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return validateReference(b.Resource, path.Child("resource"))
	case b.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	var all field.ErrorList
	service := path.Child("service")
	if name := b.Service.Name; name == "" {
		all = append(all, field.Required(service.Child("name"), ""))
	} else {
		all = append(all, rule.Invalid(service.Child("name"), name, validateServiceName(name, false))...)
	}
	switch port := b.Service.Port; {
	case port.Name != "" && port.Number != 0:
		all = append(all, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		all = append(all, rule.Invalid(service.Child("port", "name"), port.Name, validation.IsValidPortName(port.Name))...)
	case port.Number != 0:
		all = append(all, rule.Invalid(service.Child("port", "number"), port.Number, validation.IsValidPortNum(int(port.Number)))...)
	default:
		all = append(all, field.Required(path, "port name or number is required"))
	}
	return all
}

func validateReference(ref *corev1.TypedLocalObjectReference, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if ref.APIGroup != nil {
		all = append(all, rule.Invalid(path.Child("apiGroup"), *ref.APIGroup, validation.IsDNS1123Subdomain(*ref.APIGroup))...)
	}
	all = append(all, validateSegment(ref.Kind, path.Child("kind"))...)
	return append(all, validateSegment(ref.Name, path.Child("name"))...)
}

// validateSegment requires a segment of a URL path.
func validateSegment(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return rule.Invalid(path, text, content.IsPathSegmentName(text))
}

// validateIngressStatus returns the errors of the load balancer's addresses.
func validateIngressStatus(i, old *networkingv1.Ingress) field.ErrorList {
	var all field.ErrorList
	var before []string
	if old != nil {
		for _, point := range old.Status.LoadBalancer.Ingress {
			before = append(before, point.IP)
		}
	}
	for i, point := range i.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if point.IP != "" {
			all = append(all, validation.IsValidIPForLegacyField(at.Child("ip"), point.IP, true, before)...)
		}
		all = append(all, validatePointHost(at.Child("hostname"), point.Hostname)...)
	}
	return all
}

func validateIngressClass(c, old *networkingv1.IngressClass) field.ErrorList {
	var all field.ErrorList
	spec, path := &c.Spec, field.NewPath("spec")
	controller := path.Child("controller")
	if old != nil {
		all = append(all, apivalidation.ValidateImmutableField(spec.Controller, old.Spec.Controller, controller)...)
	}
	if most := 250; len(spec.Controller) > most {
		all = append(all, field.TooLong(controller, "", most))
	}
	all = append(all, validation.IsDomainPrefixedPath(controller, spec.Controller)...)
	p, path := spec.Parameters, path.Child("parameters")
	if p == nil {
		return all
	}
	if p.APIGroup != nil {
		all = append(all, rule.Invalid(path.Child("apiGroup"), *p.APIGroup, validation.IsDNS1123Subdomain(*p.APIGroup))...)
	}
	all = append(all, invalidIfSet(path.Child("kind"), p.Kind, content.IsPathSegmentName)...)
	all = append(all, invalidIfSet(path.Child("name"), p.Name, content.IsPathSegmentName)...)
	const cluster, namespace = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
	all = append(all, rule.Supported(path.Child("scope"), *p.Scope, cluster, namespace)...)
	switch at := path.Child("namespace"); {
	case *p.Scope == namespace && p.Namespace == nil:
		all = append(all, field.Required(at, "`parameters.scope` is set to 'Namespace'"))
	case *p.Scope == namespace:
		all = append(all, rule.Invalid(at, *p.Namespace, apivalidation.ValidateNamespaceName(*p.Namespace, false))...)
	case *p.Scope == cluster && p.Namespace != nil:
		all = append(all, field.Forbidden(at, "`parameters.scope` is set to 'Cluster'"))
	}
	// Kubernetes' declarative rules come last.
	if p.Kind == "" {
		all = append(all, field.Required(path.Child("kind"), ""))
	}
	if p.Name == "" {
		all = append(all, field.Required(path.Child("name"), ""))
	}
	return all
}
