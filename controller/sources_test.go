package controller_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A source that does not sync in time is an error, and no worker has begun.
func TestSyncTimeout(t *testing.T) {
	for _, tc := range []struct {
		name    string
		source  controller.Source
		stop    time.Duration // 0: the timeout comes first
		timeout time.Duration // 0: a minute
		err     string
	}{
		{name: "never", source: unsynced{}, err: "failed to wait for c caches to sync unsynced: context deadline exceeded"},
		{name: "stopped before", source: unsynced{}, stop: time.Second},
		{name: "does not start", source: controller.SourceFunc(func(context.Context, handler.Queue) error { return errors.New("broken") }),
			err: "controller c: start source: broken"},
		{name: "a channel beside it", err: "failed to wait for c caches"},
		{name: "patient", source: unsynced{}, timeout: -1, stop: 1000 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				sources := []controller.Source{adds("a"), tc.source}
				if tc.source == nil { // of this bubble
					sources[1] = controller.Channel(make(chan handler.GenericEvent), handler.EnqueueRequestForObject{})
					sources = append(sources, unsynced{})
				}
				err := run(t, controller.Options{CacheSyncTimeout: cmp.Or(tc.timeout, time.Minute), Reconciler: controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
					t.Error("a worker has begun")
					return controller.Result{}, nil
				})}, sources, func(t *testing.T, stop func()) {
					if tc.stop > 0 {
						time.Sleep(tc.stop)
						stop()
					} else {
						time.Sleep(2 * time.Minute)
					}
				})
				if tc.err == "" && (err != nil || time.Since(begin) != tc.stop) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		})
	}
}

// unsynced never syncs.
type unsynced struct{}

func (unsynced) Start(context.Context, handler.Queue) error { return nil }
func (unsynced) String() string                             { return "unsynced" }
func (unsynced) WaitForSync(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func nothing(context.Context, controller.Request) (controller.Result, error) {
	return controller.Result{}, nil
}

// unmanaged is a controller of these sources. start starts it, and ended has what Start returns.
func unmanaged(t *testing.T, opts controller.Options, sources ...controller.Source) (c controller.Controller, start func() (stop func(), ended <-chan error)) {
	t.Helper()
	opts.Logger = (&logLines{}).logger()
	c, err := controller.NewUnmanaged("c", opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			t.Fatal(err)
		}
	}
	return c, func() (func(), <-chan error) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		return stop, ended
	}
}

// A source that has started for one controller is refused to another, which leaves it alone when it
// ends.
func TestSharedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan handler.GenericEvent)
		source := controller.Channel(events, handler.EnqueueRequestForObject{})
		calls := 0
		opts := controller.Options{Reconciler: controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			calls++
			return controller.Result{}, nil
		})}
		_, start := unmanaged(t, opts, source)
		stop, ended := start()
		_, start = unmanaged(t, controller.Options{Reconciler: controller.Func(nothing)}, source)
		stopSecond, endedSecond := start()
		select {
		case err := <-endedSecond:
			if err == nil || !strings.Contains(err.Error(), "already started by another controller") {
				t.Errorf("the second controller ends with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the second controller runs")
		}
		for range 10 {
			events <- handler.GenericEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
			synctest.Wait()
		}
		if calls != 10 {
			t.Errorf("the first controller handled %d events, want 10", calls)
		}
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the first controller does not end")
		}
		stopSecond()
	})
}

// A source may add a source when it starts.
func TestWatchInSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := map[string]bool{}
		c, start := unmanaged(t, controller.Options{Reconciler: controller.Func(func(_ context.Context, request controller.Request) (controller.Result, error) {
			r[request.Name] = true
			return controller.Result{}, nil
		})})
		stop, ended := start()
		watched := make(chan error, 1)
		go func() {
			watched <- c.Watch(controller.SourceFunc(func(context.Context, handler.Queue) error { return c.Watch(adds("inner")) }))
		}()
		select {
		case err := <-watched:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Watch does not return")
		}
		synctest.Wait()
		if !r["inner"] {
			t.Error("the inner source has not started")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// stopping is a source whose Stop calls a function.
type stopping func()

func (stopping) Start(context.Context, handler.Queue) error { return nil }
func (s stopping) Stop()                                    { s() }

// While a controller ends, and after that, it takes no source: not from a handler, for which the
// end waits, nor from a Reconciler.
func TestWatchAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c controller.Controller
		var start func() (func(), <-chan error)
		watch := func(when string) {
			err := c.Watch(controller.SourceFunc(func(context.Context, handler.Queue) error {
				t.Errorf("%s: the source starts", when)
				return nil
			}))
			if err == nil || err.Error() != "controller c: start source: the controller has ended" {
				t.Errorf("%s: got %v", when, err)
			}
		}
		stops := 0
		source := stopping(func() {
			stops++
			handled := make(chan struct{})
			go func() { // a handler
				defer close(handled)
				time.Sleep(time.Second)
				watch("in a handler")
			}()
			<-handled
		})
		c, start = unmanaged(t, controller.Options{EnableWarmup: new(true), Reconciler: controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			<-ctx.Done()
			watch("in the Reconciler")
			return controller.Result{}, nil
		})}, adds("a"), source)
		warm, cool := context.WithCancel(t.Context())
		warmed := make(chan error, 1)
		go func() { warmed <- c.(manager.WarmupRunnable).Warmup(warm) }()
		stop, ended := start()
		begin := time.Now()
		stop()
		cool() // so that both want to stop the source
		if err := errors.Join(<-ended, <-warmed); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != time.Second || stops != 1 {
			t.Errorf("the end took %v, and stopped the source %d times", took, stops)
		}
		watch("after the end")
	})
}
