package admission

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/histogram"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics time admission, under kube-apiserver's names: each plugin, and all mutators or validators
// of a request together, which are its two steps. Methods are safe for concurrent use.
type Metrics struct {
	plugins, steps *prometheus.HistogramVec
	all            *timings               // of the steps
	own            []prometheus.Collector // of plugins
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns Metrics without values.
func NewMetrics() *Metrics {
	buckets := []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}
	m := &Metrics{
		plugins: prometheus.NewHistogramVec(histogram.Options("apiserver_admission_controller_admission_duration_seconds",
			"Duration of the work of an admission plugin, in seconds.", buckets), []string{"name", "type", "operation", "rejected"}),
		steps: prometheus.NewHistogramVec(histogram.Options("apiserver_admission_step_admission_duration_seconds",
			"Duration of all mutating or all validating admission of a request, in seconds.", buckets), []string{"type", "operation", "rejected"}),
	}
	m.all = &timings{of: m.steps}
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.plugins.Describe(to)
	m.steps.Describe(to)
	for _, c := range m.own {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.plugins.Collect(to)
	m.steps.Collect(to)
	for _, c := range m.own {
		c.Collect(to)
	}
}

// Timed returns the plugin with its work timed under a name. The Metrics then include those of the
// plugin, if it is a prometheus.Collector. Unlike the other methods, it is not safe for concurrent
// use.
func (m *Metrics) Timed(name string, p Plugin) Plugin {
	t := &timed{Plugin: p, timings: timings{of: m.plugins, names: []string{name}}}
	t.mutator, _ = p.(Mutator)
	t.validator, _ = p.(Validator)
	if c, ok := p.(prometheus.Collector); ok {
		m.own = append(m.own, c)
	}
	return t
}

// Steps returns an Admission of the chain whose steps are timed.
func (m *Metrics) Steps(c Chain) resource.Admission { return measured{c, m} }

type measured struct {
	Chain
	metrics *Metrics
}

// Begin implements resource.Admission.
func (c measured) Begin(r *resource.Request, op resource.Operation) resource.Admitter {
	return c.begin(r, op, c.metrics)
}

// step adds a step that began at a time and has just ended. m may be nil.
func (m *Metrics) step(step int, op resource.Operation, begun time.Time, err error) {
	if m != nil {
		m.all.observe(step, op, begun, err)
	}
}

// A timed plugin is one whose work is timed.
type timed struct {
	Plugin
	timings   timings
	mutator   Mutator   // nil if the plugin is none
	validator Validator // nil if the plugin is none
}

// Mutate implements Mutator.
func (t *timed) Mutate(ctx context.Context, a *resource.Admitted) error {
	if t.mutator == nil {
		return nil
	}
	begun := time.Now()
	err := t.mutator.Mutate(ctx, a)
	t.timings.observe(admits, a.Operation, begun, err)
	return err
}

// Validate implements Validator.
func (t *timed) Validate(ctx context.Context, a *resource.Admitted) error {
	if t.validator == nil {
		return nil
	}
	begun := time.Now()
	err := t.validator.Validate(ctx, a)
	t.timings.observe(validates, a.Operation, begun, err)
	return err
}

// The steps, as indices of [timings], with their names in metrics.
const (
	admits = iota
	validates
)

var stepNames = [...]string{"admit", "validate"}

// timings are the series of one plugin, or of the steps. They are looked up once.
type timings struct {
	of    *prometheus.HistogramVec
	names []string // values of the labels before the type
	known [len(stepNames)][4][2]atomic.Pointer[prometheus.Observer]
}

// observe adds a call that began at a time and has just ended.
func (t *timings) observe(step int, op resource.Operation, begun time.Time, err error) {
	rejected := 0
	if err != nil {
		rejected = 1
	}
	known := &t.known[step][index(op)][rejected]
	series := known.Load()
	if series == nil {
		made := t.of.WithLabelValues(append(t.names[:len(t.names):len(t.names)], stepNames[step], string(op), strconv.FormatBool(err != nil))...)
		known.Store(&made)
		series = &made
	}
	(*series).Observe(time.Since(begun).Seconds())
}

func index(op resource.Operation) int {
	switch op {
	case resource.OperationCreate:
		return 0
	case resource.OperationUpdate:
		return 1
	case resource.OperationDelete:
		return 2
	}
	return 3 // CONNECT
}
