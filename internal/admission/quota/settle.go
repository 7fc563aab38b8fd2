package quota

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
)

// retryAfter is the pause after the status of a quota could not be written.
const retryAfter = time.Second

// Start begins to settle the quotas of a store: it counts for those that have come, or have another spec, and writes what is used
// into the status of those that do not show it. It is a chore of one server of a store. It returns what ends it and waits for its end.
func (q *Quotas) Start(ctx context.Context, store *resource.Store, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	feed := store.State().Feed(func(e *state.Event) bool {
		return e.Object != nil && (e.Object.Key.Resource == quotas || q.single && e.Object.Key.Resource == ledgers)
	})
	var running sync.WaitGroup
	running.Go(func() {
		defer feed.Close()
		q.run(ctx, store, feed, log)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (q *Quotas) run(ctx context.Context, store *resource.Store, feed *state.Feed, log *slog.Logger) {
	todo := map[string]bool{}
	for o := range store.State().Snapshot(quotas).All("") {
		todo[o.Key.Namespace] = true
	}
	for ctx.Err() == nil {
		events, wait := feed.Take()
		for i := range events {
			key := events[i].Object.Key
			if key.Resource == ledgers {
				key.Namespace = key.Name
			}
			todo[key.Namespace] = true
		}
		failed := false
		for namespace := range todo {
			if err := q.settleAll(ctx, store, namespace); err == nil {
				delete(todo, namespace)
			} else if ctx.Err() == nil {
				log.Warn("cannot settle quotas", "namespace", namespace, "retry", retryAfter, "error", err)
				failed = true
			}
		}
		if len(events) > 0 {
			continue
		}
		var retry <-chan time.Time
		stop := func() bool { return true }
		if failed {
			timer := time.NewTimer(retryAfter)
			retry, stop = timer.C, timer.Stop
		}
		select {
		case <-wait:
		case <-retry:
		case <-ctx.Done():
		}
		stop()
	}
}

// settleAll settles a namespace, in as many commits as it takes.
func (q *Quotas) settleAll(ctx context.Context, store *resource.Store, namespace string) error {
	for more := true; more; {
		err := store.Commit(ctx, func(c *resource.Claims) (err error) {
			more, err = q.settle(c, namespace)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settle claims one step, and says whether there are others.
func (q *Quotas) settle(c *resource.Claims, namespace string) (more bool, err error) {
	book, err := open(c.State(), namespace)
	if err != nil {
		return false, err
	}
	for o := range c.State().Snapshot(quotas).All(namespace) {
		if a := book.accounts[o.Key.Name]; a == nil || a.uid != string(o.Meta.UID) {
			book.enter(o.Key.Name, string(o.Meta.UID)) // it is from before there were books
			c.Require(o.Key, o)
		}
	}
	if book.turned {
		return true, book.close(c)
	}
	d := q.registry.Load().Resource(quotas)
	for _, a := range book.sorted() {
		if err := a.load(c.State()); err != nil {
			return false, err
		}
		if a.stored == nil {
			continue // it goes at this moment
		}
		if a.used == nil {
			if err := a.count(c.State()); err != nil {
				return false, err
			}
		}
		if more && q.single {
			continue
		}
		written, err := a.show(c, d)
		if err != nil {
			return false, err
		}
		more = more || written
	}
	if !more && !book.dirty() {
		return false, nil
	}
	if !book.dirty() {
		c.Require(ledgerKey(namespace), book.ledger)
	}
	return more, book.close(c)
}
