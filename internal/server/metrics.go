package server

import (
	"github.com/kapok-dev/kapok/internal/journal/pebble"

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
	counter("returns", "Recoveries from such failures.", func(s pebble.Stats) int64 { return s.Returns })
	return all
}
