//go:build linux

package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// BenchmarkPacedFanOut writes at a fixed rate for some seconds, while many clients watch, each over
// its own connection. It reports the time until a watcher had read an event: since the scheduled
// time of the write, and since the response to it. Run it with -benchtime 1x.
func BenchmarkPacedFanOut(b *testing.B) {
	const (
		watchers = 100
		rate     = 200
		lasting  = 10 * time.Second
		objects  = 16
	)
	b.Run(fmt.Sprintf("watchers=%d/writes=%d", watchers, rate), func(b *testing.B) {
		p := launch(b, b.TempDir(), true)
		defer p.stop()
		t := newTarget(b, p.config, p.cpu)
		t.fill(b, objects)
		for range b.N {
			f := &fanOut{due: make([]time.Time, rate*int(lasting/time.Second)), answered: make([]time.Time, rate*int(lasting/time.Second))}
			watching, stop := f.watch(b, p.config, watchers)
			before, own, begin := p.cpu(), ownCPU(), time.Now()
			f.write(b, time.Second/rate, func(n int) error {
				// The first change sets 1,000 replicas, so that all numbers have the same length.
				return t.patch(asMerge, n%objects, firstChange+n)
			})
			took := time.Since(begin)
			server, client := p.cpu()-before, ownCPU()-own
			<-time.After(time.Second) // the last events are still being sent
			stop()
			watching.Wait()
			f.report(b, watchers)
			b.ReportMetric(100*server.Seconds()/took.Seconds(), "cpu-%")
			b.ReportMetric(100*client.Seconds()/took.Seconds(), "client-cpu-%")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// firstChange is the number of replicas that the first change sets.
const firstChange = 1000

// A fanOut records the times of numbered changes.
type fanOut struct {
	due      []time.Time // scheduled time of each change
	answered []time.Time // time of the response to each change

	mu   sync.Mutex
	seen [][]arrival // of each watcher, which owns its slice until it has ended
}

type arrival struct {
	change int
	at     time.Time
}

// write makes the changes at a steady rate: a late change does not delay the next.
func (f *fanOut) write(b *testing.B, every time.Duration, change func(n int) error) {
	var group sync.WaitGroup
	begin := time.Now()
	for n := range f.due {
		f.due[n] = begin.Add(time.Duration(n) * every)
		<-time.After(time.Until(f.due[n]))
		group.Go(func() {
			if err := change(n); err != nil {
				b.Error(err)
			}
			f.answered[n] = time.Now()
		})
	}
	group.Wait()
}

// watch starts the watches, and returns when all have received the existing objects.
func (f *fanOut) watch(b *testing.B, config *rest.Config, watchers int) (*sync.WaitGroup, context.CancelFunc) {
	ctx, cancel := context.WithCancel(b.Context())
	var group sync.WaitGroup
	for range watchers {
		config := rest.CopyConfig(config)
		config.Dial = (&net.Dialer{}).DialContext // prevents client-go from sharing connections
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			b.Fatal(err)
		}
		r, err := http.NewRequestWithContext(ctx, "GET", config.Host+widgetPath+"?watch=true", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() {
			defer resp.Body.Close()
			seen := make([]arrival, 0, len(f.due))
			for lines := bufio.NewReaderSize(resp.Body, 64<<10); ; {
				line, err := lines.ReadSlice('\n')
				if err != nil {
					break
				}
				if n := replicasIn(line) - firstChange; n >= 0 {
					seen = append(seen, arrival{n, time.Now()})
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen = append(f.seen, seen)
		})
	}
	return &group, cancel
}

// replicasIn returns the replicas of the object in a line.
func replicasIn(line []byte) int {
	_, rest, _ := bytes.Cut(line, []byte(`"replicas":`))
	digits, _, _ := bytes.Cut(rest, []byte("}"))
	n, _ := strconv.Atoi(string(digits))
	return n
}

func (f *fanOut) report(b *testing.B, watchers int) {
	var sinceDue, sinceAnswer durations
	for _, seen := range f.seen {
		if len(seen) != len(f.due) {
			b.Errorf("a watcher has seen %d of %d changes", len(seen), len(f.due))
		}
		for _, s := range seen {
			sinceDue = append(sinceDue, s.at.Sub(f.due[s.change]))
			sinceAnswer = append(sinceAnswer, max(0, s.at.Sub(f.answered[s.change])))
		}
	}
	if len(f.seen) != watchers {
		b.Errorf("%d of %d watchers", len(f.seen), watchers)
	}
	sinceDue.report(b, "due")
	sinceAnswer.report(b, "answer")
}

// report reports quantiles under a name.
func (d durations) report(b *testing.B, name string) {
	b.ReportMetric(milliseconds(d.quantile(0.5)), name+"-p50-ms")
	b.ReportMetric(milliseconds(d.quantile(0.99)), name+"-p99-ms")
	b.ReportMetric(milliseconds(d.quantile(1)), name+"-max-ms")
}
