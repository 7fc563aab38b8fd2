package bench

import "time"

// Version is that of the report's form: it changes when a field changes its meaning
// or goes.
const Version = 1

// Report is what a run has found.
type Report struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"` // of its beginning
	Server  Server    `json:"server"`
	Machine Machine   `json:"machine"`
	Load    Load      `json:"load"`
	// FsyncUs is the median of one sync of the server's disk in microseconds; zero if
	// it was not asked for.
	FsyncUs  float64   `json:"fsyncUs,omitempty"`
	Measures []Measure `json:"measures"`
	Memory   []Memory  `json:"memory,omitempty"` // without processes, none
	Notes    []string  `json:"notes,omitempty"`  // what the reader of the figures has to know
}

// Server is what was measured.
type Server struct {
	Address string `json:"address"`
	Version string `json:"version"` // as it says
}

// Machine is the one with the client, which is that of the server if processes are
// measured.
type Machine struct {
	OS          string  `json:"os"`
	Arch        string  `json:"arch"`
	Cores       int     `json:"cores"`
	Go          string  `json:"go"`
	LoadAverage float64 `json:"loadAverage,omitempty"` // of the minute before
}

// Measure is one of the things that were measured. What is not known is zero.
type Measure struct {
	Name       string  `json:"name"`  // for programs; it does not change with the load's numbers
	Title      string  `json:"title"` // for people
	Workers    int     `json:"workers,omitempty"`
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"` // that it took
	Rate       float64 `json:"rate"`    // operations a second
	// Latency is that of an operation; nil where only the whole counts.
	Latency *Latency `json:"latency,omitempty"`
	// CPUUs is the processor time of the server an operation, in microseconds; of the
	// watch, that of an event and watcher.
	CPUUs float64 `json:"cpuUs,omitempty"`
	// Waited is how often the server said 429, come again later.
	Waited int64 `json:"waited,omitempty"`
	// Error is why there are no figures.
	Error string `json:"error,omitempty"`

	writes bool // its operations wait for a sync
}

// Latency is what operations took: the median, and what 99 of 100 did not exceed.
type Latency struct {
	P50Us     float64 `json:"p50Us"`
	P99Us     float64 `json:"p99Us"`
	P50Fsyncs float64 `json:"p50Fsyncs,omitempty"` // the same in syncs of the server's disk; of writes only
	P99Fsyncs float64 `json:"p99Fsyncs,omitempty"`
}

// Memory is that of the server's processes at some time, in bytes.
type Memory struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	RssAnon  int64  `json:"rssAnonBytes"`
	RssFiles int64  `json:"rssFileBytes"` // mostly the program itself
}

// Failed is the number of measures that have an error.
func (r *Report) Failed() int {
	n := 0
	for _, m := range r.Measures {
		if m.Error != "" {
			n++
		}
	}
	return n
}

// inFsyncs adds what the latencies of writes are in syncs: a read waits for none.
func (r *Report) inFsyncs(fsync time.Duration) {
	r.FsyncUs = microseconds(fsync)
	for _, m := range r.Measures {
		if l := m.Latency; l != nil && m.writes && fsync > 0 {
			l.P50Fsyncs, l.P99Fsyncs = l.P50Us/r.FsyncUs, l.P99Us/r.FsyncUs
		}
	}
}
