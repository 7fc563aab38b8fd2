package fairness

import (
	"github.com/prometheus/client_golang/prometheus"
)

// A tally counts the requests of a schema at a level. The lock of the level guards it.
type tally struct {
	schema               string
	dispatched           uint64
	rejected             map[string]uint64 // by reason
	executing, seats     int
	waiting, wanted      int
	waited, waitedInVain histogram
	took, tookWatch      histogram
	lengths, widths      histogram
}

func newTally(schema string) *tally {
	return &tally{
		schema: schema,
		waited: newHistogram(durations), waitedInVain: newHistogram(durations),
		took: newHistogram(durations), tookWatch: newHistogram(durations),
		lengths: newHistogram(lengths), widths: newHistogram(widths),
	}
}

func (t *tally) refused(why string) {
	if t.rejected == nil {
		t.rejected = map[string]uint64{}
	}
	t.rejected[why]++
}

// executed returns the histogram for the duration of a request.
func (t *tally) executed(watch bool) *histogram {
	if watch {
		return &t.tookWatch
	}
	return &t.took
}

// The buckets of Kubernetes' histograms.
var (
	durations = []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	lengths   = []float64{0, 10, 25, 50, 100, 250, 500, 1000}
	widths    = []float64{1, 2, 4, 8, 16, 32, 64, 100}
)

// A histogram counts values in buckets. It has no lock, and so costs a request less than one of the
// Prometheus library.
type histogram struct {
	bounds []float64
	counts []uint64 // of values up to each bound, and above the previous one
	all    uint64
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds))}
}

func (h *histogram) observe(value float64) {
	h.all++
	h.sum += value
	for i, bound := range h.bounds {
		if value <= bound {
			h.counts[i]++
			return
		}
	}
}

func (h *histogram) metric(d *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(h.bounds))
	var sum uint64
	for i, bound := range h.bounds {
		sum += h.counts[i]
		buckets[bound] = sum
	}
	return prometheus.MustNewConstHistogram(d, h.all, h.sum, buckets, labels...)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("apiserver_flowcontrol_"+name, help, labels, nil)
}

// The metrics have the names and labels of kube-apiserver's, as far as they describe requests that
// are served, waiting or rejected.
var (
	byFlow = []string{"priority_level", "flow_schema"}

	rejectedDesc   = desc("rejected_requests_total", "Requests that were rejected.", append(byFlow, "reason")...)
	dispatchedDesc = desc("dispatched_requests_total", "Requests that were admitted.", byFlow...)
	inQueueDesc    = desc("current_inqueue_requests", "Requests that wait in queues.", byFlow...)
	wantedDesc     = desc("current_inqueue_seats", "Seats that requests in queues wait for.", byFlow...)
	executingDesc  = desc("current_executing_requests", "Requests that are served; watches until they have told what there is.", byFlow...)
	seatsDesc      = desc("current_executing_seats", "Seats that these requests have.", byFlow...)
	waitDesc       = desc("request_wait_duration_seconds", "How long requests waited in queues, by whether they were admitted.", append(byFlow, "execute")...)
	tookDesc       = desc("request_execution_seconds", "How long requests were served; watches until they have told what there is.", append(byFlow, "type")...)
	lengthDesc     = desc("request_queue_length_after_enqueue", "Length of its queue that each request finds, itself included.", byFlow...)
	widthDesc      = desc("work_estimated_seats", "Seats that each request takes.", byFlow...)

	nominalDesc  = desc("nominal_limit_seats", "Seats that are a level's own.", "priority_level")
	lowerDesc    = desc("lower_limit_seats", "Seats that a level does not lend.", "priority_level")
	upperDesc    = desc("upper_limit_seats", "Seats that a level may have with those that it borrows.", "priority_level")
	currentDesc  = desc("current_limit_seats", "Seats that a level has for now.", "priority_level")
	mostDesc     = desc("demand_seats_high_watermark", "Most seats that a level wanted at a time in the last period of adjustment.", "priority_level")
	averageDesc  = desc("demand_seats_average", "Seats that a level wanted in that period, on average.", "priority_level")
	stdevDesc    = desc("demand_seats_stdev", "Standard deviation of these.", "priority_level")
	smoothedDesc = desc("demand_seats_smoothed", "Seats that a level wants, smoothed over periods.", "priority_level")
	targetDesc   = desc("target_seats", "Seats that a level should have.", "priority_level")
	fractionDesc = desc("seat_fair_frac", "Fraction of its target that each level gets, unless one of its limits applies.")
)

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		rejectedDesc, dispatchedDesc, inQueueDesc, wantedDesc, executingDesc, seatsDesc, waitDesc, tookDesc, lengthDesc, widthDesc,
		nominalDesc, lowerDesc, upperDesc, currentDesc, mostDesc, averageDesc, stdevDesc, smoothedDesc, targetDesc, fractionDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Limiter) Collect(ch chan<- prometheus.Metric) {
	c := l.current.Load()
	if c == nil {
		return // no request has arrived yet
	}
	for _, level := range c.levels {
		level.collect(ch)
	}
	l.mu.Lock()
	fraction := l.fraction
	l.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(fractionDesc, prometheus.GaugeValue, fraction)
}

func (l *level) collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	var all []prometheus.Metric
	defer func() {
		l.mu.Unlock()
		for _, m := range all { // may block on the receiver, and so runs without the lock
			ch <- m
		}
	}()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
	}
	for name, t := range l.tallies {
		all = append(all, prometheus.MustNewConstMetric(dispatchedDesc, prometheus.CounterValue, float64(t.dispatched), l.name, name))
		for why, n := range t.rejected {
			all = append(all, prometheus.MustNewConstMetric(rejectedDesc, prometheus.CounterValue, float64(n), l.name, name, why))
		}
		gauge(inQueueDesc, float64(t.waiting), l.name, name)
		gauge(wantedDesc, float64(t.wanted), l.name, name)
		gauge(executingDesc, float64(t.executing), l.name, name)
		gauge(seatsDesc, float64(t.seats), l.name, name)
		for _, h := range []struct {
			*histogram
			desc  *prometheus.Desc
			label []string
		}{
			{&t.waited, waitDesc, []string{"true"}}, {&t.waitedInVain, waitDesc, []string{"false"}},
			{&t.took, tookDesc, []string{"regular"}}, {&t.tookWatch, tookDesc, []string{"watch"}},
			{&t.lengths, lengthDesc, nil}, {&t.widths, widthDesc, nil},
		} {
			if h.all > 0 {
				all = append(all, h.metric(h.desc, append([]string{l.name, name}, h.label...)...))
			}
		}
	}
	gauge(nominalDesc, float64(l.share.nominal), l.name)
	gauge(lowerDesc, float64(l.share.lower), l.name)
	gauge(upperDesc, float64(l.share.upper), l.name)
	gauge(currentDesc, float64(l.limit), l.name)
	gauge(mostDesc, float64(l.trend.most), l.name)
	gauge(averageDesc, l.trend.average, l.name)
	gauge(stdevDesc, l.trend.deviation, l.name)
	gauge(smoothedDesc, l.trend.smoothed, l.name)
	wants := l.share
	wants.most, wants.smoothed = l.trend.most, l.trend.smoothed
	gauge(targetDesc, wants.target(), l.name)
}
