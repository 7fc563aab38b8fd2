package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// amount is how much work there is: so many operations if that is not zero, and
// else as many as can be done in some time.
type amount struct {
	operations int
	time       time.Duration
}

// operation is one piece of work, the i-th of all workers.
type operation func(ctx context.Context, c *client, i int) error

// measure has workers do an operation over and over, each the next one when it has
// the answer to the last.
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

// clients are those of some workers: the shared one for each, or one of his own
// that is connected already.
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

// work has each client do operations until the work is done, and returns how long
// each operation took, and all of it. The first error ends it.
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

// watchOver waits until something is done, and says meanwhile how much of it is.
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

// pause waits.
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
