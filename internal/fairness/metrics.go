package fairness

import (
	"github.com/prometheus/client_golang/prometheus"
)

// A tally is what is counted of the requests of a schema at a level. It is guarded by the lock of the level.
type tally struct {
	schema               string
	dispatched           uint64
	rejected             map[string]uint64 // by why
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

// executed returns where the time that a request took is counted.
func (t *tally) executed(watch bool) *histogram {
	if watch {
		return &t.tookWatch
	}
	return &t.took
}

// The buckets that Kubernetes has.
var (
	durations = []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	lengths   = []float64{0, 10, 25, 50, 100, 250, 500, 1000}
	widths    = []float64{1, 2, 4, 8, 16, 32, 64, 100}
)

// A histogram costs a request less than one with a lock of its own.
type histogram struct {
	bounds []float64
	counts []uint64 // of values up to each bound, and above the one before
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

// Metrics are those of kube-apiserver, as far as they tell how much is served, waited for and refused.
var (
	byFlow = []string{"priority_level", "flow_schema"}

	rejectedDesc   = desc("rejected_requests_total", "Number of requests rejected by API Priority and Fairness subsystem", append(byFlow, "reason")...)
	dispatchedDesc = desc("dispatched_requests_total", "Number of requests executed by API Priority and Fairness subsystem", byFlow...)
	inQueueDesc    = desc("current_inqueue_requests", "Number of requests currently pending in queues of the API Priority and Fairness subsystem", byFlow...)
	wantedDesc     = desc("current_inqueue_seats", "Number of seats currently pending in queues of the API Priority and Fairness subsystem", byFlow...)
	executingDesc  = desc("current_executing_requests", "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem", byFlow...)
	seatsDesc      = desc("current_executing_seats", "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem", byFlow...)
	waitDesc       = desc("request_wait_duration_seconds", "Length of time a request spent waiting in its queue", append(byFlow, "execute")...)
	tookDesc       = desc("request_execution_seconds", "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem", append(byFlow, "type")...)
	lengthDesc     = desc("request_queue_length_after_enqueue", "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued", byFlow...)
	widthDesc      = desc("work_estimated_seats", "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness", byFlow...)

	nominalDesc  = desc("nominal_limit_seats", "Nominal number of execution seats configured for each priority level", "priority_level")
	lowerDesc    = desc("lower_limit_seats", "Configured lower bound on number of execution seats available to each priority level", "priority_level")
	upperDesc    = desc("upper_limit_seats", "Configured upper bound on number of execution seats available to each priority level", "priority_level")
	currentDesc  = desc("current_limit_seats", "current derived number of execution seats available to each priority level", "priority_level")
	mostDesc     = desc("demand_seats_high_watermark", "High watermark, over last adjustment period, of demand_seats", "priority_level")
	averageDesc  = desc("demand_seats_average", "Time-weighted average, over last adjustment period, of demand_seats", "priority_level")
	stdevDesc    = desc("demand_seats_stdev", "Time-weighted standard deviation, over last adjustment period, of demand_seats", "priority_level")
	smoothedDesc = desc("demand_seats_smoothed", "Smoothed seat demands", "priority_level")
	targetDesc   = desc("target_seats", "Seat allocation targets", "priority_level")
	fractionDesc = desc("seat_fair_frac", "Fair fraction of server's concurrency to allocate to each priority level that can use it")
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
		return // nobody has come yet
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
		for _, m := range all { // which takes as long as the reader likes
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
