package policy

import (
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/histogram"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count and time the expressions of policies, under kube-apiserver's names: mutations, and
// validations that fail. Methods are safe for concurrent use.
type Metrics struct {
	validating, mutating checks
}

var _ prometheus.Collector = (*Metrics)(nil)

// checks are the metrics of one kind of policies.
type checks struct {
	total     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newMetrics() *Metrics {
	return &Metrics{
		validating: newChecks("validating", "validations of admission policies that failed, by what became of the request", "enforcement_action"),
		mutating:   newChecks("mutating", "mutations of admission policies"),
	}
}

func newChecks(kind, what string, further ...string) checks {
	labels := append([]string{"policy", "policy_binding", "error_type"}, further...)
	prefix := "apiserver_" + kind + "_admission_policy_"
	return checks{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "check_total", Help: "Number of " + what + "."}, labels),
		durations: prometheus.NewHistogramVec(histogram.Options(prefix+"check_duration_seconds", "Duration of "+what+", in seconds.",
			[]float64{0.0000005, 0.001, 0.01, 0.1, 1.0}), labels),
	}
}

// Metrics returns the metrics of the policies.
func (p *Policies) Metrics() *Metrics { return p.metrics }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.validating.total.Describe(to)
	m.validating.durations.Describe(to)
	m.mutating.total.Describe(to)
	m.mutating.durations.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.validating.total.Collect(to)
	m.validating.durations.Collect(to)
	m.mutating.total.Collect(to)
	m.mutating.durations.Collect(to)
}

// failed counts a validation that failed, with a message. action is allow, deny, audit or warn.
func (m *Metrics) failed(p *policy, b *binding, took time.Duration, message, action string) {
	m.validating.observe(took, p.name, b.name, errorType(message), action)
}

// mutated counts a mutation, which may have failed.
func (m *Metrics) mutated(u *use, took time.Duration, err error) {
	kind := "no_error"
	if err != nil {
		kind = errorType(err.Error())
	}
	m.mutating.observe(took, u.policy.name, u.binding.name, kind)
}

func (c *checks) observe(took time.Duration, labels ...string) {
	c.total.WithLabelValues(labels...).Inc()
	c.durations.WithLabelValues(labels...).Observe(took.Seconds())
}

// errorType returns the label of a failure. Kubernetes knows it by the message as well, and so a
// validation that is false has the type of an internal error.
func errorType(message string) string {
	switch {
	case strings.HasPrefix(message, "compilation"):
		return "compile_error"
	case strings.HasPrefix(message, errSpent.Detail[:strings.Index(errSpent.Detail, ",")]):
		return "out_of_budget"
	}
	return "invalid_error"
}
