package server

import (
	"github.com/kapok-dev/kapok/internal/journal/encryption"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/prometheus/client_golang/prometheus"
)

// collectors returns the metrics of the store.
func (s *store) collectors() []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "kapok", Name: name, Help: help}, value)
	}
	all := []prometheus.Collector{
		gauge("revision", "Newest revision that is visible.", func() float64 { return float64(s.state.Revision()) }),
		gauge("journal_compacted_revision", "Revision up to which history is compacted.", func() float64 { return float64(s.state.Compacted()) }),
		gauge("journal_healthy", "1 while the journal accepts writes.", func() float64 {
			if s.journal.Health() != nil {
				return 0
			}
			return 1
		}),
	}
	if s.sealer != nil {
		all = append(all, encryption.Metrics()...)
	}
	j, ok := s.journal.(*pebble.Journal)
	if !ok {
		return all
	}
	counter := func(name, help string, value func(pebble.Stats) int64) {
		opts := prometheus.CounterOpts{Namespace: "kapok", Name: "journal_" + name + "_total", Help: help}
		all = append(all, prometheus.NewCounterFunc(opts, func() float64 { return float64(value(j.Stats())) }))
	}
	counter("commits", "Groups of writes, each with one sync of the log.", func(s pebble.Stats) int64 { return s.Commits })
	counter("entries", "Writes in these groups.", func(s pebble.Stats) int64 { return s.Entries })
	counter("bytes", "Bytes of these groups.", func(s pebble.Stats) int64 { return s.Bytes })
	counter("syncs", "Syncs of all files, including those in the background.", func(s pebble.Stats) int64 { return s.Syncs })
	counter("failures", "Failures to write the files.", func(s pebble.Stats) int64 { return s.Failures })
	all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "apiserver_storage_size_bytes", Help: "Size of the files of the store, in bytes.",
		ConstLabels: prometheus.Labels{"storage_cluster_id": "kapok"},
	}, func() float64 { return float64(j.DiskUsage()) }))
	counter("returns", "Recoveries from such failures.", func(s pebble.Stats) int64 { return s.Returns })
	return all
}

// kindSizes are the number and the size of the objects of each kind, with the names of
// kube-apiserver. They are read when they are collected.
type kindSizes struct {
	state    *state.State
	registry *resource.Registry
}

var (
	kindObjects = prometheus.NewDesc("apiserver_resource_objects", "Number of stored objects split by kind.", []string{"group", "resource"}, nil)
	kindBytes   = prometheus.NewDesc("apiserver_resource_size_estimate_bytes", "Size of the stored objects in memory, split by kind.", []string{"group", "resource"}, nil)
	kindStored  = prometheus.NewDesc("apiserver_storage_objects", "[DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects split by kind.",
		[]string{"resource"}, nil)
)

// Describe implements prometheus.Collector.
func (s kindSizes) Describe(to chan<- *prometheus.Desc) {
	to <- kindObjects
	to <- kindBytes
	to <- kindStored
}

// Collect implements prometheus.Collector.
func (s kindSizes) Collect(to chan<- prometheus.Metric) {
	for _, d := range s.registry.Load().All() {
		if d.Action != nil { // objects of such a kind are not stored
			continue
		}
		gr := d.GroupResource()
		objects, bytes := s.state.Size(gr)
		to <- prometheus.MustNewConstMetric(kindObjects, prometheus.GaugeValue, float64(objects), gr.Group, gr.Resource)
		to <- prometheus.MustNewConstMetric(kindBytes, prometheus.GaugeValue, float64(bytes), gr.Group, gr.Resource)
		to <- prometheus.MustNewConstMetric(kindStored, prometheus.GaugeValue, float64(objects), gr.String())
	}
}
