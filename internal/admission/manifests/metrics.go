package manifests

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what became of directories, under kube-apiserver's names. The identity of the
// server, which is a label there, is empty: Kapok has none. Methods are safe for concurrent use.
type Metrics struct {
	reloads *prometheus.CounterVec
	last    *prometheus.GaugeVec // times
	inUse   *prometheus.GaugeVec // hashes
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns Metrics without values.
func NewMetrics() *Metrics {
	const prefix = "apiserver_manifest_admission_config_controller_"
	return &Metrics{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "automatic_reloads_total",
			Help: "Number of times that admission manifests were loaded, by outcome."}, []string{"status", "plugin", "apiserver_id_hash"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "automatic_reload_last_timestamp_seconds",
			Help: "Time at which admission manifests were last loaded, by outcome."}, []string{"status", "plugin", "apiserver_id_hash"}),
		inUse: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "last_config_info",
			Help: "Hash of the admission manifests in effect."}, []string{"plugin", "apiserver_id_hash", "hash"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.reloads.Describe(to)
	m.last.Describe(to)
	m.inUse.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.reloads.Collect(to)
	m.last.Collect(to)
	m.inUse.Collect(to)
}

func (m *Metrics) loaded(plugin, hash string) {
	m.count("success", plugin)
	m.inUse.DeletePartialMatch(prometheus.Labels{"plugin": plugin})
	m.inUse.WithLabelValues(plugin, "", hash).Set(1)
}

func (m *Metrics) failed(plugin string) { m.count("failure", plugin) }

func (m *Metrics) count(status, plugin string) {
	m.reloads.WithLabelValues(status, plugin, "").Inc()
	m.last.WithLabelValues(status, plugin, "").SetToCurrentTime()
}
