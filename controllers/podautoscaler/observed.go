package podautoscaler

import (
	"errors"
	"time"

	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// observed are the metrics of the controller itself. They have the names of
// kube-controller-manager.
type observed struct {
	passes, computations        *prometheus.CounterVec   // by action, error; and metric_type
	passTimes, computationTimes *prometheus.HistogramVec // likewise
	autoscalers                 prometheus.Gauge
	desired                     *prometheus.GaugeVec // by namespace, hpa_name
}

func newObserved(r manager.Registry) (o observed, err error) {
	const prefix = "horizontal_pod_autoscaler_controller_"
	counter := func(name, help string, labels ...string) (c *prometheus.CounterVec) {
		if err == nil {
			c, err = manager.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels))
		}
		return c
	}
	histogram := func(name, help string, labels ...string) (h *prometheus.HistogramVec) {
		if err == nil {
			h, err = manager.Register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
				Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
			}, labels))
		}
		return h
	}
	o.passes = counter("reconciliations_total", "Looks at autoscalers.", "action", "error")
	o.passTimes = histogram("reconciliation_duration_seconds", "Time of a look at an autoscaler.", "action", "error")
	o.computations = counter("metric_computation_total", "Metrics that were computed.", "action", "error", "metric_type")
	o.computationTimes = histogram("metric_computation_duration_seconds", "Time to compute a metric.", "action", "error", "metric_type")
	if err != nil {
		return o, err
	}
	o.autoscalers, err = manager.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "num_horizontal_pod_autoscalers", Help: "Autoscalers that the controller looks at.",
	}))
	if err != nil {
		return o, err
	}
	o.desired, err = manager.Register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "desired_replicas", Help: "Replicas that an autoscaler wants.",
	}, []string{"namespace", "hpa_name"}))
	return o, err
}

// A specError is an error of the spec of an autoscaler.
type specError struct{ error }

func (e specError) Unwrap() error { return e.error }

// outcome returns the values of the labels action and error of a change of replicas.
func outcome(from, to int32, err error) (action, kind string) {
	action, kind = "none", "none"
	switch {
	case to > from:
		action = "scale_up"
	case to < from:
		action = "scale_down"
	}
	if err == nil {
		return action, kind
	}
	if _, ok := errors.AsType[specError](err); ok {
		return action, "spec"
	}
	return action, "internal"
}

// passed counts a look that has changed the replicas of its target.
func (o observed) passed(from, to int32, began time.Time, err error) {
	action, kind := outcome(from, to, err)
	o.passes.WithLabelValues(action, kind).Inc()
	o.passTimes.WithLabelValues(action, kind).Observe(time.Since(began).Seconds())
}

// computed counts a metric, which asks for a number of replicas or has failed.
func (o observed) computed(from int32, of autoscalingv2.MetricSourceType, began time.Time, got *measured, fail *failure) {
	to, err := from, error(nil)
	if fail != nil {
		err = fail.err
	} else {
		to = got.replicas
	}
	action, kind := outcome(from, to, err)
	o.computations.WithLabelValues(action, kind, string(of)).Inc()
	o.computationTimes.WithLabelValues(action, kind, string(of)).Observe(time.Since(began).Seconds())
}
