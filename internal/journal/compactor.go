package journal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// A Policy says how much history is kept; zero values mean the defaults.
type Policy struct {
	// Keep is how long an entry stays in the history at least, unless KeepBytes
	// cuts it short. Default 5 minutes.
	Keep time.Duration
	// KeepBytes bounds the history, however young it is. Default 1 GiB.
	KeepBytes int64
	// Every is how often the history is measured, and so how exactly Keep and
	// KeepBytes are kept. Default a tenth of Keep, 10 seconds at most.
	Every time.Duration
}

func (p Policy) withDefaults() Policy {
	if p.Keep <= 0 {
		p.Keep = 5 * time.Minute
	}
	if p.KeepBytes <= 0 {
		p.KeepBytes = 1 << 30
	}
	if p.Every <= 0 {
		p.Every = min(max(p.Keep/10, time.Millisecond), 10*time.Second)
	}
	return p
}

// A Compactor compacts a journal by a Policy, until it is closed. It owns one
// goroutine.
//
// It remembers checkpoints, which say at what time the journal was at what
// revision. What was written before it started counts as written then: a
// restart keeps history longer, never shorter.
type Compactor struct {
	journal Journal
	policy  Policy
	log     *slog.Logger
	cancel  context.CancelFunc
	running sync.WaitGroup

	// Of the goroutine: revisions ascending. History up to the first is not wanted;
	// the others are where that bound may move to.
	checkpoints []checkpoint
}

type checkpoint struct {
	at       time.Time
	revision object.Revision // everything up to it had been written by then
	bytes    int64           // written up to revision
}

// StartCompactor starts to compact a journal that has been recovered. The
// Compactor must be closed before the journal; it also ends with the context. A
// nil log is slog.Default().
func StartCompactor(ctx context.Context, j Journal, policy Policy, log *slog.Logger) *Compactor {
	if log == nil {
		log = slog.Default()
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &Compactor{journal: j, policy: policy.withDefaults(), log: log, cancel: cancel}
	c.running.Go(func() { c.run(ctx) })
	return c
}

// Close ends the goroutine and waits for it.
func (c *Compactor) Close() {
	c.cancel()
	c.running.Wait()
}

func (c *Compactor) run(ctx context.Context) {
	ticker := time.NewTicker(c.policy.Every)
	defer ticker.Stop()
	c.checkpoints = []checkpoint{{time.Now(), c.journal.Compacted(), 0}}
	c.measure(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			upTo := c.measure(now)
			if upTo <= c.journal.Compacted() {
				continue
			}
			err := c.journal.Compact(ctx, upTo)
			switch {
			case err == nil:
			case ctx.Err() != nil || errors.Is(err, ErrClosed):
				return
			case errors.Is(err, ErrUnavailable): // which the journal has told of
			default: // it is tried again at the next tick
				c.log.Warn("cannot compact the journal", "upTo", upTo, "error", err)
			}
		}
	}
}

// measure takes a checkpoint and returns the revision up to which the policy no
// longer wants history.
func (c *Compactor) measure(now time.Time) object.Revision {
	head, bytes := c.journal.Head()
	if c.checkpoints[len(c.checkpoints)-1].revision < head {
		c.checkpoints = append(c.checkpoints, checkpoint{now, head, bytes})
	}
	for len(c.checkpoints) > 1 {
		tooOld := now.Sub(c.checkpoints[1].at) >= c.policy.Keep
		tooMany := bytes-c.checkpoints[0].bytes > c.policy.KeepBytes
		if !tooOld && !tooMany {
			break
		}
		c.checkpoints = c.checkpoints[1:]
	}
	return c.checkpoints[0].revision
}
