package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An amount is the number of operations of a measure if it is not zero, and otherwise its duration.
type amount struct {
	operations int
	time       time.Duration
}

// An operation is one unit of work, the i-th of all workers.
type operation func(ctx context.Context, c *client, i int) error

// measure runs an operation in a number of workers, each of which starts the next one when it has
// the response to the last.
func (r *run) measure(ctx context.Context, workers int, a amount, op operation) (Measure, error) {
	clients, hangUp, err := r.clients(ctx, workers)
	defer hangUp()
	if err != nil {
		return Measure{}, err
	}
	before, err := r.processes.use()
	if err != nil {
		return Measure{}, err
	}
	took, elapsed, err := r.work(ctx, clients, a, op)
	if err != nil {
		return Measure{}, err
	}
	after, err := r.processes.use()
	if err != nil {
		return Measure{}, err
	}
	m := newMeasure(took, elapsed)
	m.Workers = workers
	m.CPUUs = microseconds(after.cpu-before.cpu) / float64(len(took))
	return m, nil
}

func newMeasure(took durations, elapsed time.Duration) Measure {
	return Measure{
		Operations: len(took),
		Seconds:    elapsed.Seconds(),
		Rate:       float64(len(took)) / elapsed.Seconds(),
		Latency:    &Latency{P50Us: microseconds(took.quantile(0.5)), P99Us: microseconds(took.quantile(0.99))},
	}
}

// clients returns the clients of a number of workers: the shared one for each, or a connected
// client for each. hangUp closes the connections of the latter.
func (r *run) clients(ctx context.Context, workers int) (clients []*client, hangUp func(), err error) {
	var own []*client
	hangUp = func() {
		for _, c := range own {
			c.close()
		}
	}
	for range workers {
		c := r.shared
		if r.OwnConnections {
			if c, err = r.dialler.client(); err != nil {
				return nil, hangUp, err
			}
			own = append(own, c)
			if err := c.do(ctx, request{method: "GET", path: "/version"}); err != nil {
				return nil, hangUp, err
			}
		}
		clients = append(clients, c)
	}
	return clients, hangUp, nil
}

// work runs operations in all clients until the amount is done, and returns the duration of each
// operation and the total time. The first error ends it.
func (r *run) work(ctx context.Context, clients []*client, a amount, op operation) (durations, time.Duration, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		group sync.WaitGroup
		next  atomic.Int64
		took  = make([]durations, len(clients))
		begin = time.Now()
	)
	for worker, c := range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				sent := time.Now()
				if a.operations > 0 && i >= a.operations || a.operations == 0 && i > 0 && sent.Sub(begin) >= a.time {
					return
				}
				if err := op(ctx, c, i); err != nil {
					stop(err)
					return
				}
				took[worker] = append(took[worker], time.Since(sent))
			}
		})
	}
	done := make(chan time.Duration, 1)
	go func() {
		group.Wait()
		done <- time.Since(begin)
	}()
	elapsed := r.watchOver(done, func() float64 {
		if a.operations > 0 {
			return float64(next.Load()) / float64(a.operations)
		}
		return float64(time.Since(begin)) / float64(a.time)
	})
	var all durations
	for _, d := range took {
		all = append(all, d...)
	}
	return all, elapsed, context.Cause(ctx)
}

// watchOver waits until done, and reports progress until then.
func (r *run) watchOver(done <-chan time.Duration, part func() float64) time.Duration {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case elapsed := <-done:
			return elapsed
		case <-tick.C:
			r.advance(min(part(), 1))
		}
	}
}

// pause waits for d, or until ctx is done.
func (r *run) pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	begin, done := time.Now(), make(chan time.Duration)
	go func() {
		<-ctx.Done()
		done <- time.Since(begin)
	}()
	r.watchOver(done, func() float64 { return float64(time.Since(begin)) / float64(d) })
}
