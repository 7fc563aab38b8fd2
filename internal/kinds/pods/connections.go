package pods

import (
	"net/http"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// connections returns the subresources of a pod that its kubelet serves, and proxy.
func connections(v1 schema.GroupVersion) []resource.Connection {
	streams := func(name string) resource.Connection {
		return resource.Connection{Name: name, Methods: []string{http.MethodGet, http.MethodPost}, Upgrades: true, Admitted: true}
	}
	return []resource.Connection{
		kind.Connection(v1, streams("attach"), func(from *kind.Parameters, into *corev1.PodAttachOptions) {
			into.Stdin, into.Stdout, into.Stderr, into.TTY = from.Is("stdin"), from.Is("stdout"), from.Is("stderr"), from.Is("tty")
			into.Container = from.Text("container")
		}, nil),
		kind.Connection(v1, streams("exec"), func(from *kind.Parameters, into *corev1.PodExecOptions) {
			into.Stdin, into.Stdout, into.Stderr, into.TTY = from.Is("stdin"), from.Is("stdout"), from.Is("stderr"), from.Is("tty")
			into.Container, into.Command = from.Text("container"), from.Texts("command")
		}, nil),
		kind.Connection(v1, resource.Connection{Name: "log", Shown: "Pod", Methods: []string{http.MethodGet}}, readLogOptions, validateLogOptions),
		kind.Connection(v1, streams("portforward"), func(from *kind.Parameters, into *corev1.PodPortForwardOptions) {
			into.Ports = from.Numbers("ports")
		}, nil),
		kind.Proxy(v1, func(options *corev1.PodProxyOptions) *string { return &options.Path }),
	}
}

func readLogOptions(from *kind.Parameters, into *corev1.PodLogOptions) {
	into.Container = from.Text("container")
	into.Follow, into.Previous, into.Timestamps = from.Is("follow"), from.Is("previous"), from.Is("timestamps")
	into.SinceSeconds, into.SinceTime = from.Number("sinceSeconds"), from.Time("sinceTime")
	into.TailLines, into.LimitBytes = from.Number("tailLines"), from.Number("limitBytes")
	into.InsecureSkipTLSVerifyBackend = from.Is("insecureSkipTLSVerifyBackend")
	into.Stream = from.Optional("stream")
}

// validateLogOptions follows ValidatePodLogOptions of pkg/apis/core/validation in
// k8s.io/kubernetes, without the feature gate PodLogsQuerySplitStreams, which is off by default.
func validateLogOptions(options, _ *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if n := options.TailLines; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *n, "must be greater than or equal to 0"))
	}
	if n := options.LimitBytes; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *n, "must be greater than 0"))
	}
	switch n := options.SinceSeconds; {
	case n != nil && options.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case n != nil && *n < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *n, "must be greater than 0"))
	}
	if options.Stream != nil {
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	return errs
}
