package accounts

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The config map that has the date since which the server tracks the use of tokens in secrets, and
// the key of that date.
const (
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey     = "since"
)

// trackingPause is the minimum time between two creations of the config map, as in Kubernetes.
const trackingPause = 30 * time.Minute

// A Tracking keeps the config map kube-apiserver-legacy-service-account-token-tracking in
// kube-system, as kube-apiserver's controller of that name does: it creates the config map with
// today's date, and creates it again after a deletion, but at most once in half an hour. It
// replaces an invalid date by today's, and keeps any other. It owns one goroutine, which is idle
// without changes of the config map. One Tracking serves all servers of a store.
type Tracking struct {
	store *resource.Store
	state *state.State
	log   *slog.Logger

	stop func()
	done sync.WaitGroup
	made time.Time // belongs to the goroutine
}

// StartTracking creates the config map unless it exists, and follows it until Close. If the first
// attempt fails, the goroutine retries.
func StartTracking(ctx context.Context, store *resource.Store, log *slog.Logger) *Tracking {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &Tracking{store: store, state: store.State(), log: log, stop: cancel}
	key := trackingKey()
	feed := t.state.Feed(func(e *state.Event) bool { return e.Last().Key == key })
	_, _ = t.keep(ctx) // run retries, and logs the error
	t.done.Go(func() {
		defer feed.Close()
		t.run(ctx, feed)
	})
	return t
}

// Close ends the goroutine and waits for it.
func (t *Tracking) Close() {
	t.stop()
	t.done.Wait()
}

func trackingKey() object.Key {
	return object.Key{Resource: configMaps, Namespace: metav1.NamespaceSystem, Name: trackingName}
}

func (t *Tracking) run(ctx context.Context, feed *state.Feed) {
	var pause time.Duration
	for ctx.Err() == nil {
		if events, _ := feed.Take(); len(events) > 0 {
			continue // only the present state matters
		}
		again, err := t.keep(ctx)
		switch {
		case err == nil:
			pause = 0
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // an event follows
		case ctx.Err() == nil:
			pause = min(max(2*pause, firstPause), lastPause)
			again = pause
			t.log.Warn("cannot update the config map "+trackingName, "retry", pause, "error", err)
		}
		events, wait := feed.Take()
		if len(events) > 0 {
			continue
		}
		t.sleep(ctx, wait, again)
	}
}

// sleep returns after a change, after d unless that is 0, or when ctx is done.
func (t *Tracking) sleep(ctx context.Context, wait <-chan struct{}, d time.Duration) {
	var alarm <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-wait:
	case <-alarm:
	case <-ctx.Done():
	}
}

// keep processes the config map, and returns the time until the next attempt; 0 means none.
func (t *Tracking) keep(ctx context.Context) (again time.Duration, err error) {
	today := time.Now().UTC().Format(time.DateOnly)
	o, _ := t.state.Get(trackingKey())
	if o == nil {
		if rest := trackingPause - time.Since(t.made); !t.made.IsZero() && rest > 0 {
			return rest, nil
		}
		body, err := json.Marshal(resource.Tree{"metadata": resource.Tree{"name": trackingName}, "data": resource.Tree{sinceKey: today}})
		if err != nil {
			return 0, err
		}
		r, err := request(t.store, configMaps, metav1.NamespaceSystem, "", tracker)
		if err != nil {
			return 0, err
		}
		if _, err = t.store.Create(ctx, r, resource.Body{Data: body}); err == nil {
			t.made = time.Now()
		}
		return 0, err
	}
	tree, err := o.Tree()
	if err != nil || dated(tree) {
		return 0, err
	}
	r, err := request(t.store, configMaps, metav1.NamespaceSystem, trackingName, tracker)
	if err != nil {
		return 0, err
	}
	_, err = t.store.Edit(ctx, r, func(live resource.Tree) error {
		data, _ := live["data"].(resource.Tree)
		if data == nil {
			data = resource.Tree{}
			live["data"] = data
		}
		if !dated(live) {
			data[sinceKey] = today
		}
		return nil
	})
	return 0, err
}

// dated reports whether the config map has a valid date.
func dated(tree resource.Tree) bool {
	data, _ := tree["data"].(resource.Tree)
	since, _ := data[sinceKey].(string)
	_, err := time.Parse(time.DateOnly, since)
	return err == nil
}
