// Package quotas settles resource quotas: it counts the usage of new quotas, and writes their
// status. Admission counts each write, see internal/admission/quota.
package quotas

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/quota"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// retryAfter is the pause after a failed write.
const retryAfter = time.Second

var resourceQuotas = schema.GroupResource{Resource: "resourcequotas"}

// Start settles the quotas of a store as they are created and changed. One server of a store runs
// it. The returned function stops it and waits for its goroutine.
func Start(ctx context.Context, store *resource.Store, q *quota.Quotas, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	feed := store.State().Feed(func(e *state.Event) bool { return q.NamespaceOf(e) != "" })
	var running sync.WaitGroup
	running.Go(func() {
		defer feed.Close()
		run(ctx, store, q, feed, log)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func run(ctx context.Context, store *resource.Store, q *quota.Quotas, feed *state.Feed, log *slog.Logger) {
	namespaces := map[string]bool{} // to settle
	for o := range store.State().Snapshot(resourceQuotas).All("") {
		namespaces[o.Key.Namespace] = true
	}
	for ctx.Err() == nil {
		events, wait := feed.Take()
		for i := range events {
			namespaces[q.NamespaceOf(&events[i])] = true
		}
		failed := false
		for namespace := range namespaces {
			if err := q.Settle(ctx, store, namespace); err == nil {
				delete(namespaces, namespace)
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
