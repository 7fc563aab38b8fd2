package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

func request(name string) controller.Request {
	return controller.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// adds is a source that adds requests.
func adds(names ...string) controller.Source {
	return controller.SourceFunc(func(_ context.Context, q handler.Queue) error {
		for _, name := range names {
			q.Add(request(name))
		}
		return nil
	})
}

// logLines records log lines.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(string(line)))
	return len(line), nil
}

func (l *logLines) logger() logr.Logger {
	return logr.FromSlogHandler(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "stack" {
			return slog.Attr{}
		}
		return a
	}}))
}

// with are the lines with a part.
func (l *logLines) with(part string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// run runs a controller in a bubble, and calls test while it runs. It returns what Start does.
func run(t *testing.T, opts controller.Options, sources []controller.Source, test func(t *testing.T, stop func())) (err error) {
	t.Helper()
	if opts.Logger.GetSink() == nil {
		opts.Logger = (&logLines{}).logger()
	}
	c, newErr := controller.NewUnmanaged("c", opts)
	if newErr != nil {
		t.Fatal(newErr)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { err = c.Start(ctx) })
	test(t, stop)
	stop()
	running.Wait()
	return err
}

// The result and error of a Reconciler determine when it is called again.
func TestResults(t *testing.T) {
	type call struct {
		result controller.Result
		err    error
		panics bool
	}
	boom := errors.New("boom")
	for _, tc := range []struct {
		name  string
		calls []call // and then nothing
		at    []time.Duration
		total string // by result
		limit time.Duration
	}{
		{name: "nothing", calls: []call{{}}, at: []time.Duration{0}, total: "success 1"},
		{name: "after hours", calls: []call{{result: controller.Result{RequeueAfter: 5 * time.Hour}}, {result: controller.Result{RequeueAfter: time.Hour}}},
			at: []time.Duration{0, 5 * time.Hour, 6 * time.Hour}, total: "requeue_after 2, success 1"},
		{name: "backoff", calls: []call{{err: boom}, {err: boom}, {err: boom}},
			at: []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 35 * time.Millisecond}, total: "error 3, success 1"},
		{name: "an error rather than a result", calls: []call{{err: boom, result: controller.Result{RequeueAfter: time.Hour}}},
			at: []time.Duration{0, 5 * time.Millisecond}, total: "error 1, success 1"},
		{name: "success forgets failures", calls: []call{{err: boom}, {err: boom}, {result: controller.Result{RequeueAfter: time.Second}}, {err: boom}},
			at:    []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 1015 * time.Millisecond, 1020 * time.Millisecond},
			total: "error 3, requeue_after 1, success 1"},
		{name: "requeue", calls: []call{{result: controller.Result{Requeue: true}}, {result: controller.Result{Requeue: true}}},
			at: []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond}, total: "requeue 2, success 1"},
		{name: "terminal", calls: []call{{err: fmt.Errorf("wrapped: %w", controller.TerminalError(boom))}}, at: []time.Duration{0}, total: "error 1, terminal 1"},
		{name: "panic", calls: []call{{panics: true}}, at: []time.Duration{0, 5 * time.Millisecond}, total: "error 1, panic 1, success 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, at := time.Now(), []time.Duration(nil)
				registry := prometheus.NewRegistry()
				err := run(t, controller.Options{
					Registerer: registry,
					Reconciler: controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
						at = append(at, time.Since(begin))
						if n := len(at) - 1; n < len(tc.calls) {
							if tc.calls[n].panics {
								panic(boom)
							}
							return tc.calls[n].result, tc.calls[n].err
						}
						return controller.Result{}, nil
					}),
				}, []controller.Source{adds("a")}, func(*testing.T, func()) { time.Sleep(24 * time.Hour) })
				if err != nil {
					t.Error(err)
				}
				if !slices.Equal(at, tc.at) {
					t.Errorf("called at %v, want %v", at, tc.at)
				}
				if got := totals(t, registry); got != tc.total {
					t.Errorf("metrics: %s, want %s", got, tc.total)
				}
			})
		})
	}
}

// totals are the counters of a controller that are not 0.
func totals(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{"controller_runtime_terminal_reconcile_errors_total": "terminal",
		"controller_runtime_reconcile_panics_total": "panic", "controller_runtime_reconcile_timeouts_total": "timeout"}
	var all []string
	for _, f := range families {
		for _, m := range f.Metric {
			name := short[f.GetName()]
			if f.GetName() == "controller_runtime_reconcile_total" {
				name = m.Label[1].GetValue()
			}
			if n := m.GetCounter().GetValue(); n > 0 && name != "" {
				all = append(all, fmt.Sprintf("%s %v", name, n))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestPanicIsLogged checks that a panic is logged with its stack, and does not end the worker.
func TestPanicIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logLines
		_ = run(t, controller.Options{Logger: l.logger(), Reconciler: controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			panic("alas")
		})}, []controller.Source{adds("a")}, func(t *testing.T, _ func()) { time.Sleep(10 * time.Millisecond) })
		if lines := l.with(`msg="Reconciler error"`); len(lines) != 2 || !strings.Contains(lines[0], `err="panic: alas [recovered]"`) {
			t.Errorf("got %q", lines)
		}
		lines := l.with("Observed a panic")
		if len(lines) != 2 {
			t.Fatalf("got %q", l.lines)
		}
		for _, part := range []string{"controller=c", "namespace=default", "name=a", "reconcileID=", "panic=alas"} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("%s is not in %s", part, lines[0])
			}
		}
	})
}

// A panic that is not to be recovered from goes on.
func TestPanicGoesOn(t *testing.T) {
	c, err := controller.NewUnmanaged("c", controller.Options{RecoverPanic: new(false), Logger: (&logLines{}).logger(),
		Reconciler: controller.Func(func(context.Context, controller.Request) (controller.Result, error) { panic("alas") })})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() != "alas" {
			t.Error("the panic did not go on")
		}
	}()
	_, _ = c.Reconcile(controller.LoggerInto(t.Context(), (&logLines{}).logger()), request("a"))
}

// TestGoexit checks that a Reconciler that ends its goroutine is reported, that other workers
// continue, and that the end of the controller does not wait for the lost one.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logLines
		var mu sync.Mutex
		var names []string
		err := run(t, controller.Options{Logger: l.logger(), MaxConcurrentReconciles: 2, Reconciler: controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
			if r.Name == "bad" {
				runtime.Goexit()
			}
			mu.Lock()
			defer mu.Unlock()
			names = append(names, r.Name)
			return controller.Result{}, nil
		})}, []controller.Source{adds("bad", "a", "b")}, func(t *testing.T, _ func()) { time.Sleep(time.Second) })
		if err != nil || len(names) != 2 {
			t.Errorf("reconciled %v, %v", names, err)
		}
		if lines := l.with("runtime.Goexit"); len(lines) != 1 || !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "name=bad") {
			t.Errorf("logged %q", lines)
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		begin, took := time.Now(), time.Duration(0)
		_ = run(t, controller.Options{Registerer: registry, ReconciliationTimeout: time.Minute,
			Reconciler: controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
				if r.Name == "quick" {
					return controller.Result{}, nil
				}
				<-ctx.Done()
				took = time.Since(begin)
				return controller.Result{}, controller.TerminalError(ctx.Err())
			})}, []controller.Source{adds("quick", "slow")}, func(*testing.T, func()) { time.Sleep(time.Hour) })
		if took != time.Minute {
			t.Errorf("the context ended after %v", took)
		}
		if got := totals(t, registry); got != "error 1, success 1, terminal 1, timeout 1" {
			t.Error(got)
		}
	})
}

// Stop waits for a reconcile that runs, whose context ends, and begins no further one.
func TestStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logLines
		var names []string
		finished := false
		begin := time.Now()
		err := run(t, controller.Options{Logger: l.logger(), Reconciler: controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
			names = append(names, r.Name)
			<-ctx.Done()
			time.Sleep(7 * time.Second)
			finished = true
			return controller.Result{}, ctx.Err()
		})}, []controller.Source{adds("a", "b", "c")}, func(t *testing.T, stop func()) { time.Sleep(time.Minute) })
		if err != nil || !finished || time.Since(begin) != 67*time.Second || !slices.Equal(names, []string{"a"}) {
			t.Errorf("finished %v after %v, reconciled %v, error %v", finished, time.Since(begin), names, err)
		}
		if lines := l.with("Reconciler error"); len(lines) > 0 {
			t.Errorf("the interruption is an error: %v", lines)
		}
	})
}

// Never two workers have one object, and as many objects are worked on as may be.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, calls := map[string]int{}, 0, 0
		var queue handler.Queue
		source := controller.SourceFunc(func(_ context.Context, q handler.Queue) error { queue = q; return nil })
		registry := prometheus.NewRegistry()
		err := run(t, controller.Options{MaxConcurrentReconciles: 4, Registerer: registry,
			Reconciler: controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
				mu.Lock()
				running[r.Name]++
				calls++
				if running[r.Name] > 1 {
					t.Errorf("%s is worked on twice", r.Name)
				}
				most = max(most, len(running))
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				delete(running, r.Name)
				mu.Unlock()
				return controller.Result{}, nil
			})}, []controller.Source{source}, func(t *testing.T, _ func()) {
			synctest.Wait()
			for i := range 1000 {
				queue.Add(request(fmt.Sprint(i % 7)))
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
		})
		if err != nil || most != 4 {
			t.Errorf("%d at a time, %v", most, err)
		}
		if calls < 300 || calls > 410 { // each takes 10 ms, and 1,000 ms pass
			t.Errorf("%d calls", calls)
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
			# HELP controller_runtime_active_workers Objects that are being reconciled.
			# TYPE controller_runtime_active_workers gauge
			controller_runtime_active_workers{controller="c"} 0
			# HELP controller_runtime_max_concurrent_reconciles Maximum number of objects that are reconciled concurrently.
			# TYPE controller_runtime_max_concurrent_reconciles gauge
			controller_runtime_max_concurrent_reconciles{controller="c"} 4
		`), "controller_runtime_active_workers", "controller_runtime_max_concurrent_reconciles"); err != nil {
			t.Error(err)
		}
	})
}

// Namespaces take turns if they are groups.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := controller.SourceFunc(func(_ context.Context, q handler.Queue) error {
			for i := range 100 {
				r := request(fmt.Sprint(i))
				r.Namespace = "busy"
				q.Add(r)
			}
			r := request("x")
			r.Namespace = "quiet"
			q.Add(r)
			return nil
		})
		var order []string
		_ = run(t, controller.Options{Group: controller.ByNamespace, Reconciler: controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
			order = append(order, r.Namespace)
			return controller.Result{}, nil
		})}, []controller.Source{source}, func(t *testing.T, _ func()) { synctest.Wait() })
		if at := slices.Index(order, "quiet"); at > 1 || len(order) != 101 {
			t.Errorf("of %d, the quiet namespace came at %d", len(order), at)
		}
	})
}

// The priority of a request stays when it comes again, unless the Result says another.
func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := controller.SourceFunc(func(_ context.Context, q handler.Queue) error {
			q.AddWithOpts(workqueue.AddOpts{Priority: handler.LowPriority}, request("low"), request("raised"))
			q.Add(request("normal"))
			return nil
		})
		var order []string
		_ = run(t, controller.Options{
			RateLimiter: workqueue.ExponentialBackoff[controller.Request](time.Second, time.Second),
			Reconciler: controller.Func(func(_ context.Context, r controller.Request) (result controller.Result, err error) {
				order = append(order, r.Name)
				if r.Name == "raised" {
					result.Priority = new(100)
				}
				if len(order) <= 3 {
					err = errors.New("again")
				}
				if len(order) == 3 {
					time.Sleep(10 * time.Second) // so that all are ready
				}
				return result, err
			})}, []controller.Source{source}, func(t *testing.T, _ func()) { time.Sleep(time.Minute) })
		if want := []string{"normal", "low", "raised", "raised", "normal", "low"}; !slices.Equal(order[:2], want[:2]) || len(order) != 6 {
			t.Errorf("got %v", order)
		}
	})
}

func TestBadOptions(t *testing.T) {
	if _, err := controller.NewUnmanaged("", controller.Options{Reconciler: controller.Func(nothing)}); err == nil {
		t.Error("no name is a name")
	}
	if _, err := controller.NewUnmanaged("c", controller.Options{}); err == nil {
		t.Error("there is no Reconciler")
	}
	if _, err := controller.New("c", nil, controller.Options{Reconciler: controller.Func(nothing)}); err == nil {
		t.Error("there is no manager")
	}
	c, err := controller.NewUnmanaged("c", controller.Options{Reconciler: controller.Func(nothing)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Watch(nil) == nil {
		t.Error("nil is a source")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Start(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Start(ctx); err == nil {
		t.Error("it starts twice")
	}
	for name, s := range map[string]controller.Source{
		"kind without a cache":      controller.Kind(nil, nil, handler.EnqueueRequestForObject{}),
		"channel without a channel": controller.Channel(nil, handler.EnqueueRequestForObject{}),
		"channel without a handler": controller.Channel(make(chan handler.GenericEvent), nil),
		"informer without one":      &controller.Informer{},
	} {
		if err := s.Start(t.Context(), nil); err == nil {
			t.Errorf("%s starts", name)
		}
	}
}
