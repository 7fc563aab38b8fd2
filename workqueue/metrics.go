package workqueue

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of queues under the names of the ecosystem: workqueue_depth,
// workqueue_adds_total, workqueue_queue_duration_seconds, workqueue_work_duration_seconds,
// workqueue_unfinished_work_seconds, workqueue_longest_running_processor_seconds and
// workqueue_retries_total. The labels name and controller are both the name of the queue; depth
// also has the label priority, with 0 and the priorities in use. The caller registers Metrics,
// which is a prometheus.Collector. [NewMetrics] returns one.
type Metrics struct {
	adds, retries *prometheus.CounterVec
	queued, work  *prometheus.HistogramVec

	depth, unfinished, longest *prometheus.Desc

	mu     sync.Mutex
	queues map[*queueMetrics]struct{} // the queues that run
}

// NewMetrics returns Metrics without a queue.
func NewMetrics() *Metrics {
	labels := []string{"name", "controller"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 12),
		}, labels)
	}
	return &Metrics{
		adds:       counter("workqueue_adds_total", "Keys that were added, except those that were already waiting."),
		retries:    counter("workqueue_retries_total", "Keys that were added with a rate limit."),
		queued:     histogram("workqueue_queue_duration_seconds", "How long keys are ready before a worker takes them."),
		work:       histogram("workqueue_work_duration_seconds", "How long workers have keys."),
		depth:      prometheus.NewDesc("workqueue_depth", "Keys that are ready.", append(labels, "priority"), nil),
		unfinished: prometheus.NewDesc("workqueue_unfinished_work_seconds", "How long workers have had what they have, added up.", labels, nil),
		longest:    prometheus.NewDesc("workqueue_longest_running_processor_seconds", "How long the slowest worker has had its key.", labels, nil),
		queues:     map[*queueMetrics]struct{}{},
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.adds, m.retries, m.queued, m.work} {
		c.Describe(to)
	}
	to <- m.depth
	to <- m.unfinished
	to <- m.longest
}

// Collect implements prometheus.Collector: it reads the state of the queues.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.adds, m.retries, m.queued, m.work} {
		c.Collect(to)
	}
	for name, s := range m.samples() {
		gauge := func(d *prometheus.Desc, value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{name, name}, labels...)...)
		}
		for priority, n := range s.depth {
			gauge(m.depth, float64(n), strconv.Itoa(priority))
		}
		gauge(m.unfinished, s.unfinished.Seconds())
		gauge(m.longest, s.longest.Seconds())
	}
}

// samples reads the state of the running queues, by name.
func (m *Metrics) samples() map[string]sample {
	m.mu.Lock()
	queues := slices.Collect(maps.Keys(m.queues))
	m.mu.Unlock() // queues lock it while they hold their own lock
	all := map[string]sample{}
	for _, q := range queues {
		s, sum := q.sample(), all[q.name]
		for priority, n := range sum.depth {
			s.depth[priority] += n
		}
		s.unfinished += sum.unfinished
		s.longest = max(s.longest, sum.longest)
		all[q.name] = s
	}
	return all
}

// A sample is the state of a queue at one moment.
type sample struct {
	depth               map[int]int // by priority
	unfinished, longest time.Duration
}

// queueMetrics are the metrics of one queue. A nil value ignores all calls.
type queueMetrics struct {
	of            *Metrics
	name          string
	sample        func() sample
	adds, retries prometheus.Counter
	queued, work  prometheus.Observer
}

func (m *Metrics) of(name string, look func() sample) *queueMetrics {
	q := &queueMetrics{
		of: m, name: name, sample: look,
		adds: m.adds.WithLabelValues(name, name), retries: m.retries.WithLabelValues(name, name),
		queued: m.queued.WithLabelValues(name, name), work: m.work.WithLabelValues(name, name),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[q] = struct{}{}
	return q
}

func (q *queueMetrics) added() {
	if q != nil {
		q.adds.Inc()
	}
}

func (q *queueMetrics) retried() {
	if q != nil {
		q.retries.Inc()
	}
}

func (q *queueMetrics) waited(d time.Duration) { q.queued.Observe(d.Seconds()) }

func (q *queueMetrics) worked(d time.Duration) { q.work.Observe(d.Seconds()) }

// forget removes a queue that has shut down. Its counters stay.
func (q *queueMetrics) forget() {
	if q == nil {
		return
	}
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	delete(q.of.queues, q)
}
