package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/manager"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A record is what a Reconciler was called for.
type record struct {
	mu    sync.Mutex
	calls []string
}

func (r *record) Reconcile(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, request.String())
	return ctrl.Result{}, nil
}

// take returns the calls since the last time, each once.
func (r *record) take() []string {
	time.Sleep(time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	slices.Sort(calls)
	return slices.Compact(calls)
}

// managed runs a manager in a bubble.
func managed(t *testing.T, opts manager.Options, test func(t *testing.T, m manager.Manager, c client.Client, start func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(context.Background(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		opts.Logger = quiet
		m, err := manager.New(server.Config(), opts)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(server.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		test(t, m, c, func() {
			running.Go(func() {
				if err := m.Start(ctx); err != nil {
					t.Error(err)
				}
			})
			<-m.Elected()
			time.Sleep(time.Second)
		})
		stop()
		running.Wait()
	})
}

func object(name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{}}
	for _, l := range labels {
		m.Labels[l] = "x"
	}
	return m
}

func TestBuilder(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, c client.Client, start func()) {
		ctx, r, all := t.Context(), &record{}, &record{}
		pushed := make(chan handler.GenericEvent)
		labelled, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hidden", Operator: metav1.LabelSelectorOpDoesNotExist}}})
		if err != nil {
			t.Fatal(err)
		}
		err = ctrl.NewControllerManagedBy(m).
			For(&corev1.ConfigMap{}, ctrl.WithPredicates(predicate.LabelChangedPredicate{})).
			Owns(&corev1.Secret{}).
			Owns(&corev1.Pod{}, ctrl.MatchEveryOwner, ctrl.OnlyMetadata).
			WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
				if _, ok := o.(*metav1.PartialObjectMetadata); !ok {
					t.Errorf("the handler gets a %T", o)
				}
				return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: "ns-of", Name: o.GetName()}}}
			})).
			WatchesRawSource(ctrl.Channel(pushed, handler.EnqueueRequestForObject{}, ctrl.WithPredicates(labelled))).
			WithEventFilter(labelled).
			WithOptions(ctrl.Options{MaxConcurrentReconciles: 2}).
			Complete(r)
		if err != nil {
			t.Fatal(err)
		}
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := ctrl.NewControllerManagedBy(m).Named("all").For(metadata).Complete(all); err != nil {
			t.Fatal(err)
		}
		start()
		expect := func(when string, want ...string) {
			t.Helper()
			if got := r.take(); !slices.Equal(got, want) {
				t.Errorf("%s: %q is reconciled, want %q", when, got, want)
			}
		}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		expect("start", "ns-of/default", "ns-of/kube-node-lease", "ns-of/kube-public", "ns-of/kube-system")
		a, b := &corev1.ConfigMap{ObjectMeta: object("a")}, &corev1.ConfigMap{ObjectMeta: object("b")}
		do(c.Create(ctx, a))
		do(c.Create(ctx, b))
		do(c.Create(ctx, &corev1.ConfigMap{ObjectMeta: object("unseen", "hidden")}))
		expect("create", "default/a", "default/b")
		a.Data = map[string]string{"k": "v"}
		do(c.Update(ctx, a))
		expect("no label changes")
		a.Labels = map[string]string{"new": "x"}
		do(c.Update(ctx, a))
		expect("a label changes", "default/a")
		owned := &corev1.Secret{ObjectMeta: object("s")}
		do(client.SetControllerReference(a, owned, m.GetScheme()))
		do(client.SetOwnerReference(b, owned, m.GetScheme()))
		do(c.Create(ctx, owned))
		expect("a secret is owned by two", "default/a")
		pod := &corev1.Pod{ObjectMeta: object("p"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		do(client.SetControllerReference(a, pod, m.GetScheme()))
		do(client.SetOwnerReference(b, pod, m.GetScheme()))
		do(c.Create(ctx, pod))
		expect("a pod is owned by two", "default/a", "default/b")
		pushed <- handler.GenericEvent{Object: &corev1.ConfigMap{ObjectMeta: object("pushed")}}
		pushed <- handler.GenericEvent{Object: &corev1.ConfigMap{ObjectMeta: object("unseen", "hidden")}}
		expect("from outside", "default/pushed")
		do(c.Delete(ctx, a))
		expect("delete, and what it owned, or is no longer owned by it", "default/a", "default/b")
		if got := all.take(); !slices.Contains(got, "default/unseen") {
			t.Errorf("the other controller reconciles %v", got)
		}
	})
}

// A source may be added while the controller runs.
func TestWatchLater(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, c client.Client, start func()) {
		r := &record{}
		ctl, err := ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Build(r)
		if err != nil {
			t.Fatal(err)
		}
		start()
		r.take()
		if err := ctl.Watch(ctrl.Kind(m.GetCache(), &corev1.Namespace{}, &handler.EnqueueRequestForObject{})); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); len(got) != 4 {
			t.Errorf("reconciled: %v", got)
		}
		informer, err := m.GetCache().GetInformer(t.Context(), &corev1.Secret{})
		if err != nil {
			t.Fatal(err)
		}
		if err := ctl.Watch(&ctrl.Informer{Informer: informer, Handler: handler.EnqueueRequestForObject{}}); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: object("s")}); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); !slices.Equal(got, []string{"default/s"}) {
			t.Errorf("reconciled: %v", got)
		}
	})
}

// A controller with EnableWarmup is up to date before its manager leads, and works only then.
func TestWarmup(t *testing.T) {
	lead := manager.Options{LeaderElection: true, LeaderElectionID: "x", LeaderElectionNamespace: "default", Controller: manager.ControllerOptions{EnableWarmup: new(true)}}
	managed(t, lead, func(t *testing.T, m manager.Manager, c client.Client, start func()) {
		lead.Logger = quiet
		second, err := manager.New(m.GetConfig(), lead)
		if err != nil {
			t.Fatal(err)
		}
		r, warm := &record{}, atomic.Bool{}
		source := ctrl.SourceFunc(func(_ context.Context, q handler.Queue) error {
			warm.Store(true)
			q.Add(ctrl.Request{})
			return nil
		})
		if err := ctrl.NewControllerManagedBy(second).Named("warm").WatchesRawSource(source).Complete(r); err != nil {
			t.Fatal(err)
		}
		start()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- second.Start(ctx) }()
		if got := r.take(); !warm.Load() || len(got) > 0 {
			t.Errorf("warm: %v, reconciled: %v", warm.Load(), got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A manager that runs starts what is added at once.
type startsAtOnce struct{ manager.Manager }

func (m startsAtOnce) Add(r manager.Runnable) error {
	defer time.Sleep(time.Second)
	return m.Manager.Add(r)
}

// slow adds a request, and has synced after a minute.
type slow struct{ ctrl.Source }

func (slow) WaitForSync(context.Context) error {
	time.Sleep(time.Minute)
	return nil
}

// A controller that is built while the manager runs waits for its sources.
func TestBuildLater(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, _ client.Client, start func()) {
		start()
		r := &record{}
		if err := ctrl.NewControllerManagedBy(startsAtOnce{m}).Named("c").WatchesRawSource(slow{adds("a")}).Complete(r); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); len(got) > 0 {
			t.Errorf("reconciled before the source has synced: %v", got)
		}
		time.Sleep(time.Minute)
		if got := r.take(); !slices.Equal(got, []string{"default/a"}) {
			t.Errorf("reconciled: %v", got)
		}
	})
}

// A controller that is refused leaves the metrics of the first of its name alone.
func TestRefusedControllerAndMetrics(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, _ client.Client, start func()) {
		build := func(workers int) error {
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).WithOptions(ctrl.Options{MaxConcurrentReconciles: workers}).Complete(&record{})
		}
		if err := build(3); err != nil {
			t.Fatal(err)
		}
		start()
		if err := build(5); err == nil {
			t.Error("two controllers have one name")
		}
		if err := testutil.GatherAndCompare(m.GetMetricsRegistry(), strings.NewReader(`
			# HELP controller_runtime_max_concurrent_reconciles Maximum number of objects that are reconciled concurrently.
			# TYPE controller_runtime_max_concurrent_reconciles gauge
			controller_runtime_max_concurrent_reconciles{controller="configmap"} 3
		`), "controller_runtime_max_concurrent_reconciles"); err != nil {
			t.Error(err)
		}
	})
}

func TestBuilderRefuses(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, _ client.Client, _ func()) {
		type stranger struct{ corev1.Pod }
		b := func() *ctrl.Builder { return ctrl.NewControllerManagedBy(m) }
		one, h := &corev1.ConfigMap{}, handler.EnqueueRequestForObject{}
		for _, tc := range []struct {
			b    *ctrl.Builder
			r    ctrl.Reconciler
			want string
		}{
			{b().For(one), nil, "the Reconciler is nil"},
			{b().For(one).For(one), &record{}, "For is called more than once"},
			{b().Owns(one).Named("x"), &record{}, "Owns is called without For"},
			{b().Named("x"), &record{}, "nothing is watched"},
			{b().Watches(one, h), &record{}, "has no name"},
			{b().Named("x").Watches(one, nil), &record{}, "the handler is nil"},
			{b().Named("x").Watches(nil, h), &record{}, "is nil"},
			{b().Named("x").Watches(one, handler.EnqueueRequestForOwner(m.GetScheme(), m.GetRESTMapper(), &stranger{})), &record{}, "kind of the owner"},
			{b().For(&stranger{}), &record{}, "stranger"},
			{b().For(one).WithOptions(ctrl.Options{Reconciler: &record{}}), &record{}, "two Reconcilers"},
			{ctrl.NewControllerManagedBy(nil).For(one), &record{}, "the manager is nil"},
		} {
			if err := tc.b.Complete(tc.r); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		}
	})
}

func TestAsReconciler(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, c client.Client, start func()) {
		start()
		if err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: object("a")}); err != nil {
			t.Fatal(err)
		}
		r := ctrl.AsReconciler(c, objects{})
		for name, want := range map[string]string{"a": "saw a", "gone": "<nil>"} {
			_, err := r.Reconcile(t.Context(), request(name))
			if fmt.Sprint(err) != want {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

type objects struct{}

func (objects) Reconcile(_ context.Context, o *corev1.ConfigMap) (ctrl.Result, error) {
	return ctrl.Result{}, errors.New("saw " + o.Name)
}
