package bench_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
)

// BenchmarkStart measures a server in this process: until it serves, and until it is closed.
func BenchmarkStart(b *testing.B) {
	for _, tc := range []struct {
		name         string
		disk, socket bool
	}{
		{name: "store=memory"},
		{name: "store=memory/socket", socket: true},
		{name: "store=disk/socket", disk: true, socket: true}, // all starts after the first one on a directory
	} {
		b.Run(tc.name, func(b *testing.B) {
			var opts kapok.Options
			if tc.disk {
				opts.DataDir = b.TempDir()
			}
			if tc.socket {
				opts.Listen = "127.0.0.1:0"
			}
			var starts, stops durations
			run := func() {
				begin := time.Now()
				s, err := kapok.Start(b.Context(), opts)
				if err != nil {
					b.Fatal(err)
				}
				starts = append(starts, time.Since(begin))
				begin = time.Now()
				if err := s.Stop(); err != nil {
					b.Fatal(err)
				}
				stops = append(stops, time.Since(begin))
			}
			run() // creates the shared values of the process, and a new directory
			first := starts[0]
			starts, stops = nil, nil
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			b.ReportMetric(milliseconds(first), "first-ms")
			b.ReportMetric(milliseconds(starts.quantile(0.5)), "start-p50-ms")
			b.ReportMetric(milliseconds(starts.quantile(1)), "start-max-ms")
			b.ReportMetric(milliseconds(stops.quantile(0.5)), "stop-p50-ms")
		})
	}
}

// durations are repeated measurements of one operation.
type durations []time.Duration

// quantile returns the duration that the part q of all does not exceed.
func (d durations) quantile(q float64) time.Duration {
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
