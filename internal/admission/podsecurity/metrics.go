package podsecurity

import (
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/pod-security-admission/api"
)

// counters count verdicts, under kube-apiserver's names.
type counters struct {
	evaluations, exemptions, errors *prometheus.CounterVec
}

// An evaluation is the result of one standard of a policy.
type evaluation struct {
	allowed  bool
	standard api.LevelVersion
	mode     string // enforce, audit or warn
}

// A failure is what kept a request from being evaluated.
type failure int

const (
	noFailure failure = iota
	tolerated         // another standard was used
	fatal
)

func newCounters() *counters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pod_security_" + name, Help: help}, labels)
	}
	c := &counters{
		evaluations: counter("evaluations_total", "Number of evaluations of a Pod Security Standard.",
			"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"),
		exemptions: counter("exemptions_total", "Number of requests that the configuration exempts.", "request_operation", "resource", "subresource"),
		errors: counter("errors_total", "Number of errors that kept a request from being evaluated.",
			"fatal", "request_operation", "resource", "subresource"),
	}
	// Kubernetes shows these before the first request, too.
	for _, operation := range []string{"create", "update"} {
		c.evaluations.WithLabelValues("allow", "privileged", "latest", "enforce", operation, "pod", "")
		c.exemptions.WithLabelValues(operation, "pod", "")
		c.exemptions.WithLabelValues(operation, "controller", "")
	}
	return c
}

// Describe implements prometheus.Collector.
func (p *Plugin) Describe(to chan<- *prometheus.Desc) {
	p.counters.evaluations.Describe(to)
	p.counters.exemptions.Describe(to)
	p.counters.errors.Describe(to)
}

// Collect implements prometheus.Collector.
func (p *Plugin) Collect(to chan<- prometheus.Metric) {
	p.counters.evaluations.Collect(to)
	p.counters.exemptions.Collect(to)
	p.counters.errors.Collect(to)
}

// count counts the verdict for a request. Those for namespaces are not counted.
func (c *counters) count(a *resource.Admitted, v *verdict) {
	operation, kind, subresource := strings.ToLower(string(a.Operation)), "controller", a.Request.Subresource
	switch a.Request.Definition.GroupResource() {
	case namespaces:
		return
	case pods:
		kind = "pod"
	}
	for _, e := range v.evaluations {
		decision := "deny"
		if e.allowed {
			decision = "allow"
		}
		c.evaluations.WithLabelValues(decision, string(e.standard.Level), versionOf(e.standard), e.mode, operation, kind, subresource).Inc()
	}
	if v.exempt {
		c.exemptions.WithLabelValues(operation, kind, subresource).Inc()
	}
	if v.failure != noFailure {
		c.errors.WithLabelValues(strconv.FormatBool(v.failure == fatal), operation, kind, subresource).Inc()
	}
}

// versionOf returns the label for the version of a standard: its number is bounded, although
// labels of namespaces can name versions that do not exist yet.
func versionOf(standard api.LevelVersion) string {
	newest := api.MajorMinorVersion(1, int(emulation.Newest))
	switch {
	case standard.Version.Latest(), standard.Level == api.LevelPrivileged:
		return api.VersionLatest
	case newest.Older(standard.Version):
		return "future"
	}
	return standard.Version.String()
}
