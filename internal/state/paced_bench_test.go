//go:build unix

package state

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
)

// BenchmarkPacedFanOut writes at a fixed rate for some seconds, while many cursors follow, each in
// its own goroutine. It reports the time from the return of Append until a cursor returns the
// event, and 0 where the cursor was faster. Run it with -benchtime 1x.
func BenchmarkPacedFanOut(b *testing.B) {
	const (
		cursors = 1000
		rate    = 500
		lasting = 5 * time.Second
	)
	b.Run(fmt.Sprintf("cursors=%d/writes=%d", cursors, rate), func(b *testing.B) {
		for range b.N {
			p := &paced{State: filled(b, 100), applied: make([]time.Time, rate*int(lasting/time.Second))}
			p.first = p.Revision() + 1
			ctx, stop := context.WithCancel(b.Context())
			var group sync.WaitGroup
			for range cursors {
				c, err := p.Watch(pods, p.Revision())
				if err != nil {
					b.Fatal(err)
				}
				group.Go(func() { p.follow(ctx, b, c) })
			}
			var before, after syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			begin := time.Now()
			p.write(ctx, b, time.Second/rate)
			took := time.Since(begin)
			syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			group.Wait() // each ends with the last event
			stop()
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(100*float64(cpu)/float64(took), "cpu-%")
			p.report(b)
		}
		b.ReportMetric(0, "ns/op")
	})
}

// paced is a State that is written at a fixed rate.
type paced struct {
	*State
	first   object.Revision
	applied []time.Time // by revision, from first on

	mu       sync.Mutex
	arrivals []arrival
}

type arrival struct {
	revision object.Revision
	at       time.Time
}

func (p *paced) write(ctx context.Context, b *testing.B, every time.Duration) {
	begin := time.Now()
	for n := range p.applied {
		<-time.After(time.Until(begin.Add(time.Duration(n) * every)))
		o, _ := p.Get(benchKey(n % 100))
		next := &object.Object{Key: o.Key, Raw: o.Raw, Meta: o.Meta}
		if _, err := p.Append(ctx, journal.Batch{Entries: []journal.Entry{{Key: o.Key, Prev: o.Revision, Object: next}}}); err != nil {
			b.Error(err)
			return
		}
		p.applied[n] = time.Now()
	}
}

func (p *paced) follow(ctx context.Context, b *testing.B, c *Cursor) {
	seen := make([]arrival, 0, len(p.applied))
	for len(seen) < len(p.applied) {
		events, wait, err := c.Next(ctx)
		if err != nil {
			b.Error(err)
			return
		}
		now := time.Now()
		for i := range events {
			seen = append(seen, arrival{events[i].Revision, now})
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, seen...)
}

func (p *paced) report(b *testing.B) {
	late := make([]time.Duration, len(p.arrivals))
	for i, a := range p.arrivals {
		late[i] = max(0, a.at.Sub(p.applied[a.revision-p.first]))
	}
	slices.Sort(late)
	for _, q := range []struct {
		name string
		part float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		at := late[int(q.part*float64(len(late)-1))]
		b.ReportMetric(float64(at)/float64(time.Millisecond), q.name+"-ms")
	}
}
