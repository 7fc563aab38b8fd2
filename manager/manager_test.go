package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/webhook"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// bubble runs a test in virtual time, with a server.
func bubble(t *testing.T, test func(*testing.T, *kapok.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(context.Background(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		test(t, server)
	})
}

// A process is a running manager.
type process struct {
	manager.Manager
	stop    context.CancelFunc
	running sync.WaitGroup
	err     error // the result of Start
}

// quiet logs errors only, to the test.
func quiet(t *testing.T) logr.Logger {
	return logr.FromSlogHandler(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
}

// silent logs nothing. (logr.Discard counts as an unset logger.)
func silent() logr.Logger { return logr.FromSlogHandler(slog.DiscardHandler) }

// textLogger returns a logger that writes text.
func textLogger(w io.Writer) logr.Logger { return logr.FromSlogHandler(slog.NewTextHandler(w, nil)) }

// newProcess creates a manager, which setup adds to, and starts it.
func newProcess(t *testing.T, cfg *rest.Config, opts manager.Options, setup func(manager.Manager) error) *process {
	t.Helper()
	if opts.Logger.GetSink() == nil {
		opts.Logger = quiet(t)
	}
	m, err := manager.New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	if setup != nil {
		if err := setup(m); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{Manager: m}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	p.running.Go(func() { p.err = m.Start(ctx) })
	return p
}

// end stops the process, and waits for it.
func (p *process) end() error {
	p.stop()
	p.running.Wait()
	return p.err
}

// newClient returns a client that shares nothing with the managers.
func newClient(t *testing.T, s *kapok.Server) client.Client {
	t.Helper()
	c, err := client.New(s.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// copies is a Reconciler that creates a Secret for each ConfigMap.
type copies struct {
	client.Client
	mu    sync.Mutex
	calls []string
}

func (r *copies) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.mu.Lock()
	r.calls = append(r.calls, request.Name)
	r.mu.Unlock()
	from := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, from); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name}}
	_, err := client.CreateOrUpdate(ctx, r.Client, to, func() error {
		to.StringData = from.Data
		return ctrl.SetControllerReference(from, to, r.Scheme())
	})
	return ctrl.Result{}, err
}

func (r *copies) setup(m manager.Manager) error {
	r.Client = m.GetClient()
	return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(r)
}

// TestOwnership checks that owned objects are created, repaired, and deleted with their owner.
func TestOwnership(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		ctx, c := t.Context(), newClient(t, s)
		r := &copies{}
		p := newProcess(t, s.Config(), manager.Options{}, r.setup)
		<-p.Elected()
		a := configMap("a")
		a.Data = map[string]string{"k": "1"}
		if err := c.Create(ctx, a); err != nil {
			t.Fatal(err)
		}
		copied := func() (value string, err error) {
			time.Sleep(time.Second)
			secret := &corev1.Secret{}
			err = c.Get(ctx, client.ObjectKeyFromObject(a), secret)
			return string(secret.Data["k"]), err
		}
		if value, err := copied(); err != nil || value != "1" {
			t.Fatalf("created: %q, %v", value, err)
		}
		a.Data["k"] = "2"
		if err := c.Update(ctx, a); err != nil {
			t.Fatal(err)
		}
		if value, err := copied(); err != nil || value != "2" {
			t.Fatalf("updated: %q, %v", value, err)
		}
		if err := c.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		if value, err := copied(); err != nil || value != "2" {
			t.Fatalf("repaired: %q, %v", value, err)
		}
		if err := c.Delete(ctx, a); err != nil {
			t.Fatal(err)
		}
		if value, err := copied(); !apierrors.IsNotFound(err) {
			t.Fatalf("deleted: %q, %v", value, err)
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestReadsItsWrites checks that the manager's client reads its own writes, although it reads from
// the cache, even a partial one.
func TestReadsItsWrites(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts manager.Options
		kept bool
	}{
		{"everything", manager.Options{}, true},
		{"some namespaces", manager.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}, "kube-public": {}}}}, true},
		{"other namespaces", manager.Options{Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{"kube-public": {}}}}, false},
		{"a selector", manager.Options{Cache: cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"keep": "me"})}}, true},
		{"another selector", manager.Options{Cache: cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"keep": "others"})}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *kapok.Server) {
				ctx := t.Context()
				p := newProcess(t, s.Config(), tc.opts, nil)
				<-p.Elected()
				c, begin := p.GetClient(), time.Now()
				for i := range 50 {
					o := configMap(fmt.Sprint(i))
					o.Labels = map[string]string{"keep": "me"}
					if err := c.Create(ctx, o); err != nil {
						t.Fatal(err)
					}
					got := &corev1.ConfigMap{}
					err := c.Get(ctx, client.ObjectKeyFromObject(o), got)
					if tc.kept && (err != nil || got.ResourceVersion != o.ResourceVersion) || !tc.kept && err == nil {
						t.Fatalf("object %d is read as %q, %v", i, got.ResourceVersion, err)
					}
					list := &corev1.ConfigMapList{}
					if err := c.List(ctx, list); err != nil || tc.kept != (len(list.Items) == 1) {
						t.Fatalf("list of %d, %v", len(list.Items), err)
					}
					if err := c.Delete(ctx, o); err != nil {
						t.Fatal(err)
					}
					if err := c.Get(ctx, client.ObjectKeyFromObject(o), got); err == nil {
						t.Fatalf("object %d exists after its deletion", i)
					}
				}
				if d := time.Since(begin); d > time.Second {
					t.Errorf("reads waited for %v", d)
				}
				if err := p.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestGracefulStop checks that the manager waits for its runnables as long as the grace allows, and
// then returns an error about those that still run. It does not release its lease then.
func TestGracefulStop(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name     string
		grace    *time.Duration // nil: 30 s
		needs    time.Duration
		after    time.Duration
		err      string
		takeover time.Duration // maximum
	}{
		{name: "ends", needs: 20 * second, after: 20 * second, takeover: 25 * second},
		{name: "does not end", needs: time.Minute, after: 30 * second, err: "runnables of the leader have not ended within the grace period of 30s", takeover: 55 * second},
		{name: "as long as it takes", grace: new(-second), needs: 5 * time.Minute, after: 5 * time.Minute, takeover: 305 * second},
		{name: "no grace", grace: new(time.Duration(0)), needs: time.Minute, takeover: 20 * second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *kapok.Server) {
				opts := election()
				opts.GracefulShutdownTimeout = tc.grace
				p := newProcess(t, s.Config(), opts, func(m manager.Manager) error {
					return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
						<-ctx.Done()
						time.Sleep(tc.needs)
						return nil
					}))
				})
				elected(t, p)
				begin := time.Now()
				other := newProcess(t, s.Config(), election(), nil)
				err := p.end()
				if d := time.Since(begin); d < tc.after || d > tc.after+100*time.Millisecond { // the lease may be in the middle of a renewal
					t.Errorf("it took %v", d)
				}
				if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
					t.Errorf("error %v", err)
				}
				elected(t, other)
				if d := time.Since(begin); d > tc.takeover || tc.err != "" && d < tc.after+10*second {
					t.Errorf("another is elected after %v", d)
				}
				if err := other.end(); err != nil {
					t.Error(err)
				}
				time.Sleep(tc.needs) // until the rest has ended
			})
		})
	}
}

// TestOrder checks that runnables start in order, and stop in reverse.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		runnable := func(name string) manager.RunnableFunc {
			return func(ctx context.Context) error {
				note("+" + name)
				<-ctx.Done()
				time.Sleep(time.Second)
				note("-" + name)
				return nil
			}
		}
		opts := election()
		p := newProcess(t, s.Config(), opts, func(m manager.Manager) error {
			return errors.Join(m.Add(runnable("leader")), m.Add(always{runnable("always")}))
		})
		elected(t, p)
		if err := p.Add(always{runnable("late")}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := p.end(); err != nil {
			t.Error(err)
		}
		if len(order) == 6 { // two start at once, and two stop
			slices.Sort(order[:3])
			slices.Sort(order[4:])
		}
		if !slices.Equal(order, []string{"+always", "+late", "+leader", "-leader", "-always", "-late"}) {
			t.Errorf("got %v", order)
		}
		if err := p.Add(runnable("too late")); err == nil {
			t.Error("a runnable starts after the end")
		}
		if err := p.Start(t.Context()); err == nil {
			t.Error("the manager starts twice")
		}
	})
}

// always is a runnable that needs no leadership.
type always struct{ manager.RunnableFunc }

func (always) NeedLeaderElection() bool { return false }

// TestWebhookServer checks that the webhook server runs only if it is requested.
func TestWebhookServer(t *testing.T) {
	for _, asked := range []bool{false, true} {
		bubble(t, func(t *testing.T, s *kapok.Server) {
			hooks := &hooks{}
			p := newProcess(t, s.Config(), manager.Options{WebhookServer: hooks}, func(m manager.Manager) error {
				if asked && (m.GetWebhookServer() != manager.WebhookServer(hooks) || m.GetWebhookServer() == nil) {
					t.Error("GetWebhookServer returns another server")
				}
				return nil
			})
			<-p.Elected()
			synctest.Wait()
			if err := p.end(); err != nil {
				t.Error(err)
			}
			if want := map[bool]int{true: 1}[asked]; hooks.starts != want {
				t.Errorf("it was started %d times, want %d", hooks.starts, want)
			}
		})
	}
}

type hooks struct {
	manager.WebhookServer
	needs  time.Duration // from the start until it serves
	starts int
	serves atomic.Bool
}

func (*hooks) NeedLeaderElection() bool { return false }
func (h *hooks) Start(ctx context.Context) error {
	h.starts++
	defer time.AfterFunc(h.needs, func() { h.serves.Store(true) }).Stop()
	<-ctx.Done()
	return nil
}
func (h *hooks) StartedChecker() func(*http.Request) error {
	return func(r *http.Request) error {
		if !h.serves.Load() {
			return errors.New("not yet")
		}
		return r.Context().Err()
	}
}

// TestFailure checks that Start returns the error of a runnable that fails.
func TestFailure(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		boom := errors.New("boom")
		ended := false
		p := newProcess(t, s.Config(), manager.Options{}, func(m manager.Manager) error {
			return errors.Join(
				m.Add(manager.RunnableFunc(func(ctx context.Context) error {
					<-ctx.Done()
					ended = true
					return ctx.Err()
				})),
				m.Add(manager.RunnableFunc(func(context.Context) error {
					time.Sleep(time.Minute)
					return boom
				})))
		})
		p.running.Wait()
		if !errors.Is(p.err, boom) || !ended {
			t.Errorf("got %v, the other has ended: %v", p.err, ended)
		}
		p.stop()
	})
}

// TestKindThatIsMissing checks that a controller whose kind does not exist fails after its
// CacheSyncTimeout, and that a manager that stops before returns no error.
func TestKindThatIsMissing(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprint("stopped ", stopped), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *kapok.Server) {
				opts := manager.Options{Logger: silent()}
				p := newProcess(t, s.Config(), opts, func(m manager.Manager) error {
					missing := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Missing"}}
					return ctrl.NewControllerManagedBy(m).For(missing).Complete(
						ctrl.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
				})
				begin := time.Now()
				if stopped {
					time.Sleep(time.Minute)
					if err := p.end(); err != nil {
						t.Error(err)
					}
					if d := time.Since(begin); d != time.Minute {
						t.Errorf("it took %v", d)
					}
					return
				}
				p.running.Wait()
				p.stop()
				if d := time.Since(begin); d < 2*time.Minute || d > 3*time.Minute || p.err == nil ||
					!strings.Contains(p.err.Error(), "failed to wait for missing caches to sync") {
					t.Errorf("after %v: %v", d, p.err)
				}
			})
		})
	}
}

// TestNames checks that the names of controllers are unique in a manager, but not in a process.
func TestNames(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		setup := func(m manager.Manager, opts ctrl.Options) error {
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).WithOptions(opts).Complete(
				ctrl.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
		}
		for range 2 {
			m, err := manager.New(s.Config(), manager.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := setup(m, ctrl.Options{}); err != nil {
				t.Error(err)
			}
			if err := setup(m, ctrl.Options{}); err == nil || !strings.Contains(err.Error(), `controller name "configmap" is already`) {
				t.Errorf("got %v", err)
			}
			if err := setup(m, ctrl.Options{SkipNameValidation: new(true)}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestBadOptions(t *testing.T) {
	if _, err := manager.New(nil, manager.Options{}); err == nil {
		t.Error("there is no server")
	}
	bubble(t, func(t *testing.T, s *kapok.Server) {
		for name, opts := range map[string]manager.Options{
			"leader election without a name": {LeaderElection: true, LeaderElectionNamespace: "default"},
			"leader election nowhere":        {LeaderElection: true, LeaderElectionID: "x"},
			"a renewal longer than a lease":  {LeaderElection: true, LeaderElectionID: "x", LeaderElectionNamespace: "default", RenewDeadline: new(time.Minute)},
			"two checks at one path":         {LivenessEndpointName: "/x", ReadinessEndpointName: "x/"},
			"metrics twice":                  {Metrics: manager.MetricsOptions{ExtraHandlers: handlers("/metrics")}},
			"an invalid path":                {Metrics: manager.MetricsOptions{ExtraHandlers: handlers("")}},
		} {
			if _, err := manager.New(s.Config(), opts); err == nil {
				t.Errorf("%s is accepted", name)
			}
		}
		m, err := manager.New(s.Config(), manager.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if m.Add(nil) == nil || m.AddHealthzCheck("", manager.Ping) == nil || m.AddReadyzCheck("x", nil) == nil {
			t.Error("a nil runnable is accepted")
		}
	})
}

// TestSharedRegistry checks that two managers share the default registry, and that an error
// prevents that metrics are served nowhere.
func TestSharedRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		shared := manager.MetricsOptions{Registry: prometheus.NewRegistry()}
		first, second := webhook.NewServer(webhook.Options{Port: -1}), webhook.NewServer(webhook.Options{Port: -1})
		for i, tc := range []struct {
			server manager.WebhookServer
			fails  bool
		}{{first, false}, {nil, false}, {first, false}, {second, true}} {
			if _, err := manager.New(s.Config(), manager.Options{WebhookServer: tc.server, Metrics: shared}); (err != nil) != tc.fails {
				t.Errorf("manager %d: %v", i, err)
			}
		}
	})
}

// TestWaitsForWebhooks checks that caches, and everything that needs them, wait until webhooks are
// served, up to a limit, and no longer than the manager runs.
func TestWaitsForWebhooks(t *testing.T) {
	for _, tc := range []struct{ needs, stops, elected, ends time.Duration }{
		{needs: 3 * time.Second, stops: time.Minute, elected: 3 * time.Second, ends: time.Minute},
		{needs: time.Hour, stops: time.Minute, elected: 10 * time.Second, ends: time.Minute},
		{needs: time.Hour, stops: 2 * time.Second, ends: 2 * time.Second},
	} {
		bubble(t, func(t *testing.T, s *kapok.Server) {
			begin := time.Now()
			p := newProcess(t, s.Config(), manager.Options{Logger: silent(), WebhookServer: &hooks{needs: tc.needs}}, func(m manager.Manager) error {
				m.GetWebhookServer()
				return nil
			})
			time.AfterFunc(tc.stops, p.stop)
			running := make(chan struct{})
			go func() {
				defer close(running)
				p.running.Wait()
			}()
			select {
			case <-p.Elected():
				if d := time.Since(begin); d < tc.elected || d > tc.elected+100*time.Millisecond || tc.elected == 0 {
					t.Errorf("controllers run after %v, want %v", d, tc.elected)
				}
			case <-running:
				if tc.elected != 0 {
					t.Error("controllers never run")
				}
			}
			<-running
			if d := time.Since(begin); p.err != nil || d > tc.ends+100*time.Millisecond {
				t.Errorf("it ends after %v: %v", d, p.err)
			}
		})
	}
}
