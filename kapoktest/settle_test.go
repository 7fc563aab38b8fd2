package kapoktest_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// TestSettle has programs, and the time until they have settled.
func TestSettle(t *testing.T) {
	for _, tc := range []struct {
		name   string
		quiet  time.Duration // 0 for the default of Settle
		run    func(ctx context.Context, t *testing.T, env *kapoktest.Env)
		writes int           // expected number of writes
		from   time.Duration // minimum time
		to     time.Duration
	}{
		{name: "nothing", from: 10 * time.Second, to: 10 * time.Second, run: func(context.Context, *testing.T, *kapoktest.Env) {}},
		{name: "steps with pauses", writes: 10, from: 46 * time.Second, to: 47 * time.Second, run: steps(4*time.Second, 10)},
		{name: "pauses that are too long", writes: 1, from: 10 * time.Second, to: 11 * time.Second, run: steps(15*time.Second, 10)},
		{name: "pauses that are not", quiet: 20 * time.Second, writes: 10, from: 155 * time.Second, to: 156 * time.Second, run: steps(15*time.Second, 10)},
		{name: "hours", quiet: 2 * time.Hour, writes: 10, from: 11 * time.Hour, to: 11*time.Hour + 5*time.Minute, run: steps(time.Hour, 10)},
		{name: "leader election", from: 10 * time.Second, to: 11 * time.Second, run: func(ctx context.Context, t *testing.T, env *kapoktest.Env) {
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "l"},
					Client: clientset(t, env.Config()).CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "me"}},
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
			})
		}},
		{name: "an answer that is late", writes: 1, from: 35 * time.Second, to: 41 * time.Second, run: func(ctx context.Context, t *testing.T, env *kapoktest.Env) {
			body, rest := io.Pipe()
			time.AfterFunc(25*time.Second, func() { rest.Close() })
			_ = clientset(t, env.Config()).CoreV1().RESTClient().Post().Resource("configmaps").Namespace("default").Body(body).Do(ctx)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				env.Go(func(ctx context.Context) error {
					tc.run(ctx, t, env)
					return nil
				})
				begin := time.Now()
				if tc.quiet == 0 {
					env.Settle()
				} else {
					env.SettleFor(tc.quiet)
				}
				if took := time.Since(begin); took < tc.from || took > tc.to {
					t.Errorf("it took %v", took)
				}
				n := 0
				for _, r := range env.Writes() {
					if !strings.Contains(r.Path, "/leases") {
						n++
					}
				}
				if n != tc.writes {
					t.Errorf("%d writes", n)
				}
			})
		})
	}
}

// steps returns a program of writes with pauses between them.
func steps(pause time.Duration, n int) func(context.Context, *testing.T, *kapoktest.Env) {
	return func(ctx context.Context, t *testing.T, env *kapoktest.Env) {
		client := clientset(t, env.Config())
		for i := range n {
			_, _ = client.CoreV1().ConfigMaps("default").Create(ctx, configMap(fmt.Sprint("step-", i)), metav1.CreateOptions{})
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// TestSettleTwice checks that several goroutines can wait at the same time, all until the end of
// the work.
func TestSettleTwice(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Go(func(ctx context.Context) error {
			steps(4*time.Second, 10)(ctx, t, env)
			return nil
		})
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				env.Settle()
				if n := len(env.Writes()); n != 10 {
					t.Errorf("%d writes", n)
				}
			})
		}
		both.Wait()
	})
}

// TestSettleWithoutEnd checks the errors about work that never ends, and about a response that
// never comes.
func TestSettleWithoutEnd(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(ctx context.Context, t *testing.T, env *kapoktest.Env)
		want string
	}{
		{"work", steps(time.Second, 10_000), "requests of the last 10s:\n  POST /api/v1/namespaces/default/configmaps Created\n"},
		{"no answer", func(ctx context.Context, t *testing.T, env *kapoktest.Env) {
			body, _ := io.Pipe()
			defer context.AfterFunc(ctx, func() { body.Close() })()
			client := clientset(t, env.Config())
			for ctx.Err() == nil { // the server does not wait forever
				_ = client.CoreV1().RESTClient().Post().Resource("configmaps").Namespace("default").Body(body).Do(ctx)
			}
		}, "requests without a response:\n  POST /api/v1/namespaces/default/configmaps\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				env.Go(func(ctx context.Context) error {
					tc.run(ctx, t, env)
					return nil
				})
				begin := time.Now()
				said := fails(t, func(tb testing.TB) { kapoktest.SettleWith(env, tb, 10*time.Second) })
				if !strings.HasPrefix(said, "the server does not become idle: "+tc.want) {
					t.Errorf("it says %q", said)
				}
				if took := time.Since(begin); took < time.Hour || took > time.Hour+time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestErrorsInBubble checks that reporting an error in a bubble does not sleep until the time of
// the machine.
func TestErrorsInBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, _ *kapoktest.Env) {
		begin := time.Now()
		utilruntime.HandleError(io.ErrUnexpectedEOF)
		if took := time.Since(begin); took != 0 {
			t.Errorf("it takes %v", took)
		}
	})
}

// TestRequestsAreBounded checks that the last requests are remembered, and fewer of those that
// repeat.
func TestRequestsAreBounded(t *testing.T) {
	env := kapoktest.Start(t)
	kapoktest.Remember(env, 100)
	client := clientset(t, env.Config())
	for n := range 60 {
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(fmt.Sprint("c", n)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			_, _ = client.CoordinationV1().Leases("default").Get(t.Context(), "none", metav1.GetOptions{})
		}
	}
	if n := len(env.Requests()); n < 60 || n > 100 {
		t.Errorf("%d requests of 240", n)
	}
	writes := env.Writes()
	if len(writes) != 60 { // repeated requests can be dropped
		t.Errorf("%d writes of 60", len(writes))
	}
	for n := 1; n < len(writes); n++ {
		if writes[n].Time.Before(writes[n-1].Time) {
			t.Errorf("write %d comes too early", n)
		}
	}
}

// TestSettleWaitsForFaults checks that faults count as work: a delayed event until it is delivered
// or its watch has ended, and an outage until clients have reconnected.
func TestSettleWaitsForFaults(t *testing.T) {
	faults := kapoktest.Faults{DelayWatch: 1, MaxDelay: 3 * time.Hour}
	watch := func(t *testing.T, env *kapoktest.Env) watch.Interface {
		if !env.Exists(configMap("a")) {
			env.Create(configMap("a"))
		}
		w, err := clientset(t, env.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	t.Run("event", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			w, begin := watch(t, env), time.Now()
			defer w.Stop()
			told := false
			go func() {
				<-w.ResultChan()
				told = true
			}()
			env.Settle()
			if took := time.Since(begin); !told || took < time.Hour { // depends on the seed
				t.Errorf("told %t, after %v", told, took)
			}
		}, kapoktest.WithFaults(1, faults))
	})
	t.Run("watch that ends", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			w, begin := watch(t, env), time.Now()
			time.AfterFunc(time.Minute, w.Stop)
			env.Settle()
			if took := time.Since(begin); took < time.Minute || took > 2*time.Minute {
				t.Errorf("it took %v", took)
			}
		}, kapoktest.WithFaults(1, faults))
	})
	t.Run("context that ends", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			env.Create(configMap("a"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin := time.Now()
			body, err := clientset(t, env.Config()).CoreV1().RESTClient().Get().Resource("configmaps").Param("watch", "true").Stream(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			go func() { _, _ = body.Read(make([]byte, 1)) }()
			env.Settle()
			if took := time.Since(begin); took < time.Minute || took > 2*time.Minute {
				t.Errorf("it took %v", took)
			}
		}, kapoktest.WithFaults(1, faults))
	})
	t.Run("outage", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			cms := clientset(t, env.Config()).CoreV1().ConfigMaps("default")
			begin := time.Now()
			if _, err := cms.List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("there is no outage")
			}
			kapoktest.NoMoreFaults(env)
			env.Settle()
			if _, err := cms.List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
		}, kapoktest.WithFaults(1, kapoktest.Faults{Restart: 1, MaxOutage: 10 * time.Minute}))
	})
	t.Run("held forever", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			env.Create(configMap("a"))
			cms := clientset(t, env.Config()).CoreV1().ConfigMaps("default")
			env.Go(func(ctx context.Context) error {
				for {
					w, err := cms.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
					switch {
					case ctx.Err() != nil:
						return nil // the test is over
					case err != nil:
						return err
					}
					<-w.ResultChan()
					w.Stop()
				}
			})
			said := fails(t, func(tb testing.TB) { kapoktest.SettleWith(env, tb, 10*time.Second) })
			if !strings.HasPrefix(said, "the server does not become idle: faults in progress:\n  DelayWatch: event ") {
				t.Errorf("it says %q", said)
			}
		}, kapoktest.WithFaults(1, kapoktest.Faults{DelayWatch: 1, MaxDelay: time.Minute}))
	})
}

// TestExploreSettles checks that a controller that handles all faults is done when Settle returns.
func TestExploreSettles(t *testing.T) {
	for name, faults := range map[string]kapoktest.Faults{
		"delays":  {DelayWatch: .5, MaxDelay: time.Minute},
		"outages": {Restart: .05, MaxOutage: 15 * time.Second}, // a controller waits two minutes for its cache
		"both":    {DelayWatch: .3, MaxDelay: 10 * time.Minute, CutWatch: .2, Restart: .02, MaxOutage: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kapoktest.Explore(t, 20, faults, func(t testing.TB, env *kapoktest.Env) {
				env.Go(widgetController(env.Config()))
				env.Settle()
				w := widget("w")
				env.Create(w)
				env.Settle()
				if env.Get(w); !ready(w)() {
					t.Error("it is not ready yet")
				}
			}, kapoktest.CRDs("testdata/crd"))
		})
	}
}
