package pods

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateRunning returns the errors of fields that only long-running containers have.
func validateRunning(c *corev1.Container, spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	grace := spec.TerminationGracePeriodSeconds
	if c.Lifecycle != nil {
		if h := c.Lifecycle.PostStart; h != nil {
			all = append(all, validateHandler(handler{h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep, grace}, at.Child("lifecycle", "postStart"))...)
		}
		if h := c.Lifecycle.PreStop; h != nil {
			all = append(all, validateHandler(handler{h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep, grace}, at.Child("lifecycle", "preStop"))...)
		}
	}
	if p := c.LivenessProbe; p != nil {
		all = append(all, validateProbe(p, at.Child("livenessProbe"))...)
		all = append(all, validateOneSuccess(p, at.Child("livenessProbe"))...)
	}
	if p := c.ReadinessProbe; p != nil {
		all = append(all, validateProbe(p, at.Child("readinessProbe"))...)
		if p.TerminationGracePeriodSeconds != nil {
			all = append(all, field.Invalid(at.Child("readinessProbe", "terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
		}
	}
	if p := c.StartupProbe; p != nil {
		all = append(all, validateProbe(p, at.Child("startupProbe"))...)
		all = append(all, validateOneSuccess(p, at.Child("startupProbe"))...)
	}
	return all
}

func validateOneSuccess(p *corev1.Probe, at *field.Path) field.ErrorList {
	if p.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1")}
}

func validateProbe(p *corev1.Probe, at *field.Path) field.ErrorList {
	all := validateHandler(handler{p.Exec, p.HTTPGet, p.TCPSocket, p.GRPC, nil, nil}, at)
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		all = append(all, apivalidation.ValidateNonnegativeField(int64(n.value), at.Child(n.name))...)
	}
	if seconds := p.TerminationGracePeriodSeconds; seconds != nil && *seconds <= 0 {
		all = append(all, field.Invalid(at.Child("terminationGracePeriodSeconds"), *seconds, "must be greater than 0"))
	}
	return all
}

// handler is the action of a probe or lifecycle hook; exactly one field must be set.
type handler struct {
	exec  *corev1.ExecAction
	get   *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
	grace *int64 // the grace period of the pod, in seconds
}

func validateHandler(h handler, at *field.Path) field.ErrorList {
	var all field.ErrorList
	handlers := 0
	check := func(set bool, name string, validate func(at *field.Path) field.ErrorList) {
		switch {
		case !set:
		case handlers > 0:
			all = append(all, field.Forbidden(at.Child(name), "may not specify more than 1 handler type"))
		default:
			handlers++
			all = append(all, validate(at.Child(name))...)
		}
	}
	check(h.exec != nil, "exec", func(at *field.Path) field.ErrorList {
		if len(h.exec.Command) == 0 {
			return field.ErrorList{field.Required(at.Child("command"), "")}
		}
		return nil
	})
	check(h.get != nil, "httpGet", func(at *field.Path) field.ErrorList { return validateHTTPGet(h.get, at) })
	check(h.tcp != nil, "tcpSocket", func(at *field.Path) field.ErrorList { return validatePort(h.tcp.Port, at.Child("port")) })
	check(h.grpc != nil, "grpc", func(at *field.Path) field.ErrorList {
		return validatePort(intstr.FromInt32(h.grpc.Port), at.Child("port"))
	})
	check(h.sleep != nil, "sleep", func(at *field.Path) field.ErrorList {
		if h.grace != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *h.grace) {
			return field.ErrorList{field.Invalid(at, h.sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *h.grace))}
		}
		return nil
	})
	if handlers == 0 {
		all = append(all, field.Required(at, "must specify a handler type"))
	}
	return all
}

func validateHTTPGet(get *corev1.HTTPGetAction, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if get.Path == "" {
		all = append(all, field.Required(at.Child("path"), ""))
	}
	all = append(all, validatePort(get.Port, at.Child("port"))...)
	if get.Scheme != corev1.URISchemeHTTP && get.Scheme != corev1.URISchemeHTTPS {
		all = append(all, field.NotSupported(at.Child("scheme"), get.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}))
	}
	for _, header := range get.HTTPHeaders {
		all = append(all, rule.Invalid(at.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
	}
	return all
}

func validatePort(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.String {
		return rule.Invalid(at, port.StrVal, validation.IsValidPortName(port.StrVal))
	}
	return rule.Invalid(at, port.IntValue(), validation.IsValidPortNum(port.IntValue()))
}
