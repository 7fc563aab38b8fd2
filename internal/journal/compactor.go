package journal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// A Policy defines how much history is retained. Zero values mean the defaults.
type Policy struct {
	// Keep is the minimum time that an entry stays in the history, unless the history exceeds
	// KeepBytes. Default 5 minutes.
	Keep time.Duration
	// KeepBytes limits the size of the history, whatever its age. Default 1 GiB.
	KeepBytes int64
	// Every is the interval at which the history is measured, and so the precision of Keep and
	// KeepBytes. Default a tenth of Keep, at most 10 seconds.
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

// Compactable is the part of a Journal, or of the state in front of it, that a Compactor uses.
type Compactable interface {
	// Head returns the revision of the newest commit, and the bytes of the entries up to it.
	Head() (object.Revision, int64)
	// Compacted returns the revision up to which history is compacted.
	Compacted() object.Revision
	// Compact discards the history up to a revision.
	Compact(ctx context.Context, upTo object.Revision) error
}

// A Compactor compacts a journal according to a Policy until it is closed. It owns one goroutine.
//
// It keeps checkpoints, each a time and the revision of the journal at that time. Entries written
// before the start count as written at the start: a restart keeps history longer, never shorter.
type Compactor struct {
	journal Compactable
	policy  Policy
	log     *slog.Logger
	cancel  context.CancelFunc
	running sync.WaitGroup

	// Used by the goroutine only, ascending by revision. History up to the first checkpoint is no
	// longer needed; the others are where that limit may move to.
	checkpoints []checkpoint
}

type checkpoint struct {
	at       time.Time
	revision object.Revision // everything up to it was written by that time
	bytes    int64           // written up to revision
}

// StartCompactor starts to compact a recovered journal. Close the Compactor before the journal; it
// also ends with the context. A nil log means slog.Default().
func StartCompactor(ctx context.Context, j Compactable, policy Policy, log *slog.Logger) *Compactor {
	if log == nil {
		log = slog.Default()
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &Compactor{journal: j, policy: policy.withDefaults(), log: log, cancel: cancel}
	c.running.Go(func() { c.run(ctx) })
	return c
}

// Close stops the goroutine and waits for it.
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
			case errors.Is(err, ErrUnavailable): // the journal logs that itself
			default: // retried at the next tick
				c.log.Warn("cannot compact the journal", "upTo", upTo, "error", err)
			}
		}
	}
}

// measure takes a checkpoint and returns the revision up to which the policy allows compaction.
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
