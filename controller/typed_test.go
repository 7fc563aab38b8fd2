package controller_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/manager/cluster"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A clusterRequest names an object of one of several clusters.
type clusterRequest struct {
	Cluster string
	types.NamespacedName
}

func (r clusterRequest) String() string { return r.Cluster + "#" + r.NamespacedName.String() }

// of maps the objects of a type to the requests of a cluster.
func of[object client.Object](name string) handler.TypedEventHandler[object, clusterRequest] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj object) []clusterRequest {
		return []clusterRequest{{name, client.ObjectKeyFromObject(obj)}}
	})
}

// A typedRecord is what a TypedReconciler was called for.
type typedRecord[request comparable] struct {
	mu    sync.Mutex
	calls []string
}

func (r *typedRecord[request]) Reconcile(ctx context.Context, req request) (ctrl.Result, error) {
	ctrl.LoggerFrom(ctx).Info("Reconciled")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprint(req))
	return ctrl.Result{}, nil
}

func (r *typedRecord[request]) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// A controller of two clusters reconciles objects of one name apart, drops what predicates of the
// type refuse, and logs and traces the request as the program defines it.
func TestTypedControllerOfTwoClusters(t *testing.T) {
	spans, logged := tracetest.NewInMemoryExporter(), &logLines{}
	opts := manager.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))}
	managed(t, opts, func(t *testing.T, m manager.Manager, c client.Client, start func()) {
		server, err := kapok.Start(context.Background(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		other, err := cluster.New(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Add(other); err != nil {
			t.Fatal(err)
		}
		visible := predicate.NewTypedPredicateFuncs(func(m *corev1.ConfigMap) bool { return m.Data["hidden"] == "" })
		changed := predicate.TypedFuncs[*corev1.ConfigMap]{UpdateFunc: func(e handler.TypedUpdateEvent[*corev1.ConfigMap]) bool {
			return e.ObjectOld.Data["text"] != e.ObjectNew.Data["text"]
		}}
		both := predicate.And(visible, predicate.Or(changed, predicate.Not(changed)), changed)
		r := &typedRecord[clusterRequest]{}
		built, err := ctrl.TypedControllerManagedBy[clusterRequest](m).Named("texts").
			WatchesRawSource(ctrl.TypedKind(m.GetCache(), &corev1.ConfigMap{}, of[*corev1.ConfigMap]("here"), both)).
			WatchesRawSource(ctrl.TypedKind(other.GetCache(), &corev1.ConfigMap{}, of[*corev1.ConfigMap]("there"), both)).
			Watches(&corev1.Secret{}, of[client.Object]("secrets")).
			WithOptions(ctrl.TypedOptions[clusterRequest]{Logger: logged.logger(), MaxConcurrentReconciles: 2}).
			Build(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := built.Reconcile(logr.NewContext(t.Context(), quiet), clusterRequest{Cluster: "direct"}); err != nil {
			t.Error(err)
		}
		start()
		r.take()
		expect := func(when string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			got := r.take()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q is reconciled, want %q", when, got, want)
			}
		}
		write := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		here, hidden := &corev1.ConfigMap{ObjectMeta: object("a")}, &corev1.ConfigMap{ObjectMeta: object("b"), Data: map[string]string{"hidden": "x"}}
		write(c.Create(t.Context(), here))
		write(c.Create(t.Context(), hidden))
		write(other.GetClient().Create(t.Context(), &corev1.ConfigMap{ObjectMeta: object("a")}))
		expect("created", "here#default/a", "there#default/a")
		here.Labels = map[string]string{"label": "x"}
		write(c.Update(t.Context(), here))
		expect("a label")
		here.Data = map[string]string{"text": "x"}
		write(c.Update(t.Context(), here))
		expect("a text", "here#default/a")
		write(c.Create(t.Context(), &corev1.Secret{ObjectMeta: object("s")}))
		expect("a secret", "secrets#default/s")
	})
	var reconciled []string
	for _, s := range spans.GetSpans() {
		if s.Name == "Reconcile texts" {
			attributes := attribute.NewSet(s.Attributes...)
			request, _ := attributes.Value("request")
			reconciled = append(reconciled, request.AsString())
			if request.AsString() == "there#default/a" && len(s.Links) != 1 {
				t.Errorf("the reconcile has %d links, not that to its event", len(s.Links))
			}
		}
	}
	if !slices.Contains(reconciled, "there#default/a") {
		t.Errorf("spans of requests: %q", reconciled)
	}
	if lines := logged.with("Reconciled"); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "request=secrets#default/s") {
		t.Errorf("%q is logged", lines)
	}
}

// A request of a type of its own is added once while it waits, in the order of priorities, and
// groups take turns.
func TestTypedQueueDropsEqualRequestsAndOrdersThem(t *testing.T) {
	at := func(cluster, name string) clusterRequest {
		return clusterRequest{cluster, types.NamespacedName{Name: name}}
	}
	for _, tc := range []struct {
		name  string
		group func(clusterRequest) string
		want  string
	}{
		{"one group", nil, "a#/urgent a#/1 a#/2 a#/3 b#/1 a#/late"},
		{"clusters take turns", func(r clusterRequest) string { return r.Cluster }, "a#/urgent a#/1 b#/1 a#/2 a#/3 a#/late"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &typedRecord[clusterRequest]{}
				c, err := ctrl.NewTypedUnmanaged("c", ctrl.TypedOptions[clusterRequest]{
					Reconciler: r, Group: tc.group, Logger: quiet, RateLimiter: workqueue.ExponentialBackoff[clusterRequest](time.Second, time.Minute)})
				if err != nil {
					t.Fatal(err)
				}
				err = c.Watch(ctrl.TypedSourceFunc[clusterRequest](func(_ context.Context, q workqueue.TypedRateLimitingInterface[clusterRequest]) error {
					q.AddWithOpts(workqueue.AddOpts{Priority: handler.LowPriority}, at("a", "late"), at("a", "1"))
					for range 3 {
						q.Add(at("a", "1")) // which has a low priority so far
						q.Add(at("a", "2"))
						q.Add(at("a", "3"))
						q.Add(at("b", "1"))
					}
					q.AddWithOpts(workqueue.AddOpts{Priority: 10}, at("a", "urgent"))
					return nil
				}))
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() {
					if err := c.Start(ctx); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				stop()
				running.Wait()
				if got := strings.Join(r.take(), " "); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
			})
		})
	}
}

// Errors and results of a typed Reconciler bring the request back, as they do for objects.
func TestTypedReconcilerRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		c, err := ctrl.NewTypedUnmanaged("c", ctrl.TypedOptions[int]{
			Logger: quiet,
			Reconciler: ctrl.TypedFunc[int](func(_ context.Context, n int) (ctrl.Result, error) {
				at = append(at, time.Since(begun))
				switch len(at) {
				case 1:
					return ctrl.Result{}, fmt.Errorf("%d fails", n)
				case 2:
					return ctrl.Result{RequeueAfter: time.Hour}, nil
				}
				return ctrl.Result{}, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		events := make(chan handler.TypedGenericEvent[string], 1)
		events <- handler.TypedGenericEvent[string]{Object: "seven"}
		err = c.Watch(ctrl.TypedChannel(events, handler.TypedFuncs[string, int]{
			GenericFunc: func(_ context.Context, e handler.TypedGenericEvent[string], q workqueue.TypedRateLimitingInterface[int]) {
				q.Add(len(e.Object))
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := c.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * time.Hour)
		stop()
		running.Wait()
		if want := []time.Duration{0, 5 * time.Millisecond, time.Hour + 5*time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("called at %v, want %v", at, want)
		}
	})
}

// A channel of events about anything has predicates of its type, and takes as many events as its
// buffer holds while the handler is busy.
func TestTypedChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, events, blocked := &typedRecord[string]{}, make(chan handler.TypedGenericEvent[string]), make(chan struct{})
		c, err := ctrl.NewTypedUnmanaged("c", ctrl.TypedOptions[string]{Reconciler: r, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Watch(ctrl.TypedChannel(events, handler.TypedFuncs[string, string]{
			GenericFunc: func(_ context.Context, e handler.TypedGenericEvent[string], q workqueue.TypedRateLimitingInterface[string]) {
				<-blocked
				q.Add(strings.ToUpper(e.Object))
			}},
			ctrl.ChannelPredicates[string, string](predicate.NewTypedPredicateFuncs(func(s string) bool { return s != "no" })),
			ctrl.WithBufferSize[string, string](2)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := c.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		for _, s := range []string{"a", "b", "no", "c"} { // one in the handler, two in the buffer, one between
			events <- handler.TypedGenericEvent[string]{Object: s}
			synctest.Wait()
		}
		select {
		case events <- handler.TypedGenericEvent[string]{Object: "d"}:
			t.Error("the buffer has no bound")
		default:
		}
		close(blocked)
		close(events)
		synctest.Wait()
		if got := strings.Join(r.take(), " "); got != "A B C" {
			t.Errorf("%s is reconciled, want A B C", got)
		}
		stop()
		running.Wait()
	})
}

// Handlers and predicates of one type of objects work with requests that name an object, too, and
// get whole objects.
func TestKindOfOneType(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, c client.Client, start func()) {
		r, seen := &record{}, map[string]bool{}
		labelled := predicate.TypedLabelChangedPredicate[*corev1.ConfigMap]{}
		informer, err := m.GetCache().GetInformer(t.Context(), &corev1.Secret{})
		if err != nil {
			t.Fatal(err)
		}
		err = ctrl.NewControllerManagedBy(m).Named("typed").
			WatchesRawSource(ctrl.Kind(m.GetCache(), &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}, labelled)).
			WatchesRawSource(ctrl.Kind(m.GetCache(), &corev1.ServiceAccount{}, handler.TypedEnqueueRequestForOwner[*corev1.ServiceAccount](
				m.GetScheme(), m.GetRESTMapper(), &corev1.ConfigMap{}, handler.OnlyControllerOwner()))).
			WatchesRawSource(&ctrl.TypedInformer[*corev1.Secret, ctrl.Request]{Informer: informer,
				Handler: handler.WithLowPriorityWhenUnchanged(handler.TypedFuncs[*corev1.Secret, ctrl.Request]{
					CreateFunc: func(_ context.Context, e handler.TypedCreateEvent[*corev1.Secret], q handler.Queue) {
						seen[string(e.Object.Data["key"])] = true
						q.Add(handler.RequestFor(e.Object))
					}})}).
			Complete(r)
		if err != nil {
			t.Fatal(err)
		}
		start()
		r.take()
		owner := &corev1.ConfigMap{ObjectMeta: object("owner")}
		if err := c.Create(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		owned := &corev1.ServiceAccount{ObjectMeta: object("owned")}
		if err := ctrl.SetControllerReference(owner, owned, m.GetScheme()); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); !slices.Equal(got, []string{"default/owner"}) {
			t.Errorf("created: %q", got)
		}
		if err := c.Create(t.Context(), owned); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); !slices.Equal(got, []string{"default/owner"}) {
			t.Errorf("an owned object: %q", got)
		}
		owner.Data = map[string]string{"x": "y"}
		if err := c.Update(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); len(got) > 0 {
			t.Errorf("an update that the predicate refuses: %q", got)
		}
		if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: object("s"), StringData: map[string]string{"key": "value"}}); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); !slices.Equal(got, []string{"default/s"}) || !seen["value"] {
			t.Errorf("an object of an informer: %q, %v", got, seen)
		}
	})
}

// Invalid combinations of types return an error with the reason.
func TestTypedMistakes(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, _ client.Client, _ func()) {
		r := &typedRecord[clusterRequest]{}
		err := ctrl.TypedControllerManagedBy[clusterRequest](m).For(&corev1.ConfigMap{}).Complete(r)
		if err == nil || !strings.Contains(err.Error(), "call Watches") || !strings.Contains(err.Error(), reflect.TypeFor[clusterRequest]().String()) {
			t.Errorf("For with requests of another type: %v", err)
		}
		err = ctrl.Kind(m.GetCache(), &corev1.Secret{}, handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}).Start(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "*v1.ConfigMap") {
			t.Errorf("a handler of another type of objects: %v", err)
		}
		var none handler.TypedEventHandler[*corev1.Secret, clusterRequest]
		if err := ctrl.TypedKind(m.GetCache(), &corev1.Secret{}, none).Start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the handler is nil") {
			t.Errorf("no handler: %v", err)
		}
	})
}

// An informer with objects of another type than its handler is logged, and the controller goes on.
func TestInformerOfAnotherType(t *testing.T) {
	managed(t, manager.Options{}, func(t *testing.T, m manager.Manager, c client.Client, start func()) {
		informer, err := m.GetCache().GetInformer(t.Context(), &corev1.Secret{})
		if err != nil {
			t.Fatal(err)
		}
		r, logged := &record{}, &logLines{}
		wrong := &ctrl.TypedInformer[*corev1.ConfigMap, ctrl.Request]{Informer: informer, Handler: handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}}
		err = ctrl.NewControllerManagedBy(m).Named("wrong").WatchesRawSource(wrong).WithOptions(ctrl.Options{Logger: logged.logger()}).Complete(r)
		if err != nil {
			t.Fatal(err)
		}
		start()
		secret := &corev1.Secret{ObjectMeta: object("s")}
		if err := c.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		secret.Labels = map[string]string{"x": "y"}
		if err := c.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); len(got) > 0 {
			t.Errorf("%q is reconciled", got)
		}
		if lines := logged.with("objects of another type"); len(lines) < 3 || !strings.Contains(lines[0], "*v1.Secret") {
			t.Errorf("%q is logged", lines)
		}
	})
}
