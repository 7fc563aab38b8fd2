package bench

import "time"

// Version is the version of the report's form. It changes when the meaning of a field changes, or a
// field is removed.
const Version = 1

// A Report has the results of a run.
type Report struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"` // of the start
	Server  Server    `json:"server"`
	Machine Machine   `json:"machine"`
	Load    Load      `json:"load"`
	// FsyncUs is the median of one sync of the server's disk in microseconds; zero if it was not
	// measured.
	FsyncUs  float64   `json:"fsyncUs,omitempty"`
	Measures []Measure `json:"measures"`
	Memory   []Memory  `json:"memory,omitempty"` // empty without processes
	Notes    []string  `json:"notes,omitempty"`  // caveats for readers
}

// A Server is the server that was measured.
type Server struct {
	Address string `json:"address"`
	Version string `json:"version"` // as reported by /version
}

// A Machine is the client's machine, which is also the server's if processes are measured.
type Machine struct {
	OS          string  `json:"os"`
	Arch        string  `json:"arch"`
	Cores       int     `json:"cores"`
	Go          string  `json:"go"`
	LoadAverage float64 `json:"loadAverage,omitempty"` // of the minute before the run
}

// A Measure is the result of one measure. Unknown figures are zero.
type Measure struct {
	Name       string  `json:"name"`  // identifies the measure; does not depend on the load
	Title      string  `json:"title"` // for display
	Workers    int     `json:"workers,omitempty"`
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"` // total duration
	Rate       float64 `json:"rate"`    // operations per second
	// Latency is that of one operation; nil if only the total time counts.
	Latency *Latency `json:"latency,omitempty"`
	// CPUUs is the processor time of the server for one operation, in microseconds; for watch, for
	// one event and watcher.
	CPUUs float64 `json:"cpuUs,omitempty"`
	// Waited is the number of responses with code 429.
	Waited int64 `json:"waited,omitempty"`
	// Error is the reason why there are no figures.
	Error string `json:"error,omitempty"`

	writes bool // operations include a sync
}

// Latency has the median and the 99th percentile of the latencies of an operation.
type Latency struct {
	P50Us     float64 `json:"p50Us"`
	P99Us     float64 `json:"p99Us"`
	P50Fsyncs float64 `json:"p50Fsyncs,omitempty"` // the same in syncs of the server's disk; for writes only
	P99Fsyncs float64 `json:"p99Fsyncs,omitempty"`
}

// Memory is the memory of the server's processes at one time, in bytes.
type Memory struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	RssAnon  int64  `json:"rssAnonBytes"`
	RssFiles int64  `json:"rssFileBytes"` // mostly the executable
}

// Failed returns the number of measures with an error.
func (r *Report) Failed() int {
	n := 0
	for _, m := range r.Measures {
		if m.Error != "" {
			n++
		}
	}
	return n
}

// inFsyncs converts the latencies of writes to syncs; reads do not wait for one.
func (r *Report) inFsyncs(fsync time.Duration) {
	r.FsyncUs = microseconds(fsync)
	for _, m := range r.Measures {
		if l := m.Latency; l != nil && m.writes && fsync > 0 {
			l.P50Fsyncs, l.P99Fsyncs = l.P50Us/r.FsyncUs, l.P99Us/r.FsyncUs
		}
	}
}
