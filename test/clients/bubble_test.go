package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	kapokclient "github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const day = 24 * time.Hour

// options returns the options of a manager in a test: no socket, and controllers whose names need
// not be unique. The cache does not resync every ten hours, so that counted events have a cause.
func options() ctrl.Options {
	return ctrl.Options{
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: new(true)},
		Cache:                  crcache.Options{SyncPeriod: new(365 * day)},
	}
}

func newManager(t testing.TB, config *rest.Config, change func(*ctrl.Options)) manager.Manager {
	t.Helper()
	o := options()
	if change != nil {
		change(&o)
	}
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// pass waits for a time, and then until all goroutines are idle: without the last second, the race
// detector would not know that the values read next were written before.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const finalizer = "example.com/sets"

// sets creates the pods of replica sets, with the usual parts of operators: owners, a finalizer,
// watches of other kinds, events of both APIs, and a reconciliation of each set every other day.
type sets struct {
	client.Client
	mgr   manager.Manager
	looks map[string][]time.Time
}

func (s *sets) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	rs := &appsv1.ReplicaSet{}
	if err := s.Get(ctx, r.NamespacedName, rs); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !rs.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(rs, finalizer)
		return reconcile.Result{}, client.IgnoreNotFound(s.Update(ctx, rs))
	}
	if controllerutil.AddFinalizer(rs, finalizer) {
		return reconcile.Result{}, s.Update(ctx, rs)
	}
	s.looks[rs.Name] = append(s.looks[rs.Name], time.Now())
	for n := range *rs.Spec.Replicas {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rs.Namespace, Name: fmt.Sprintf("%s-%d", rs.Name, n), Labels: rs.Spec.Template.Labels}}
		op, err := controllerutil.CreateOrUpdate(ctx, s.Client, pod, func() error {
			if pod.CreationTimestamp.IsZero() {
				pod.Spec = rs.Spec.Template.Spec
			}
			return controllerutil.SetControllerReference(rs, pod, s.Scheme())
		})
		if err != nil {
			return reconcile.Result{}, err
		}
		if op == controllerutil.OperationResultCreated {
			s.mgr.GetEventRecorder("sets").Eventf(rs, pod, corev1.EventTypeNormal, "Created", "Creating", "pod %s", pod.Name)
		}
	}
	return reconcile.Result{RequeueAfter: 2 * day}, nil
}

// jobs deletes jobs when their time to live has passed.
type jobs struct{ client.Client }

func (j *jobs) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	job := &batchv1.Job{}
	if err := j.Get(ctx, r.NamespacedName, job); err != nil || job.Spec.TTLSecondsAfterFinished == nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	left := time.Until(job.CreationTimestamp.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second))
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(j.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

func replicaSet(namespace, name string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	rs.Spec.Replicas, rs.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	rs.Spec.Template.Labels = labels
	rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	return rs
}

// TestManagerInBubble runs a manager with two controllers for days.
func TestManagerInBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		mgr := newManager(t, env.Config(), nil)
		s := &sets{Client: mgr.GetClient(), mgr: mgr, looks: map[string][]time.Time{}}
		check(t, ctrl.NewControllerManagedBy(mgr).For(&appsv1.ReplicaSet{}).Owns(&corev1.Pod{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
			})).Complete(s))
		check(t, ctrl.NewControllerManagedBy(mgr).For(&batchv1.Job{}).Complete(&jobs{mgr.GetClient()}))
		env.Go(mgr.Start)

		count := func(list client.ObjectList, namespace string) int {
			check(t, env.Client().List(t.Context(), list, kapokclient.InNamespace(namespace)))
			switch l := list.(type) {
			case *corev1.PodList:
				return len(l.Items)
			case *eventsv1.EventList:
				return len(l.Items)
			}
			return -1
		}
		env.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		rs := replicaSet("default", "web", 3)
		env.Create(rs, replicaSet("team", "other", 2))
		env.Settle()
		if n := count(&corev1.PodList{}, ""); n != 5 {
			t.Errorf("%d pods of 5", n)
		}
		if n := count(&eventsv1.EventList{}, "default"); n != 1 { // a series of three
			t.Errorf("%d events of a set", n)
		}

		// A deleted pod is created again, and the test waits for it.
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}
		env.Get(pod)
		uid := pod.UID
		env.Delete(pod)
		env.WaitFor(t.Context(), pod, func() bool { return pod.UID != uid })

		// The set is reconciled every other day, and when its config map changes.
		env.Settle()
		before := len(s.looks["web"])
		pass(6 * day)
		if n := len(s.looks["web"]) - before; n != 3 {
			t.Errorf("looked at %d times in six days: %v", n, s.looks["web"])
		}
		env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		env.Settle()
		if n := len(s.looks["web"]) - before; n != 4 {
			t.Errorf("looked at %d times after the change of a config map", n)
		}
		if n := count(&eventsv1.EventList{}, ""); n != 0 {
			t.Errorf("%d events are days old", n)
		}

		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"}}
		job.Spec.TTLSecondsAfterFinished = new(int32(3 * 24 * 60 * 60))
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		env.Create(job)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 7*day)
		defer cancel()
		env.WaitGone(ctx, job)
		if took := time.Since(begin).Round(time.Second); took != 3*day {
			t.Errorf("the job lived %v", took)
		}

		// The server deletes the dependents of a set, and the contents of a namespace, once the
		// finalizers are removed.
		env.Delete(rs, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		env.Settle()
		if n := count(&corev1.PodList{}, ""); n != 0 {
			t.Errorf("%d pods are left", n)
		}
		if env.Exists(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}) {
			t.Error("the namespace is left")
		}
	})
}

// TestBackoffInBubble checks that failures are retried after 5 ms, with pauses that double up to
// 1,000 s.
func TestBackoffInBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		mgr := newManager(t, env.Config(), nil)
		var tries []time.Time
		check(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.Secret{}).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			tries = append(tries, time.Now())
			return reconcile.Result{}, errors.New("not today")
		})))
		env.Go(mgr.Start)
		env.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
		pass(day)
		for n := 1; n < len(tries); n++ {
			want := min(5*time.Millisecond<<min(n-1, 20), 1000*time.Second)
			if got := tries[n].Sub(tries[n-1]); got < want || got > want+100*time.Millisecond {
				t.Errorf("try %d comes after %v, want %v", n, got, want)
			}
		}
		if len(tries) < 18+84 || len(tries) > 18+88 {
			t.Errorf("%d tries in a day", len(tries))
		}
	})
}

// TestResyncInBubble checks that a cache resyncs every ten hours.
func TestResyncInBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		mgr := newManager(t, env.Config(), func(o *ctrl.Options) { o.Cache = crcache.Options{SyncPeriod: new(10 * time.Hour)} })
		looks := 0
		check(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.Secret{}).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			looks++
			return reconcile.Result{}, nil
		})))
		env.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
		env.Go(mgr.Start)
		env.Settle()
		pass(10 * day)
		if looks < 1+18 || looks > 1+27 { // every nine to eleven hours; a few are lost when the informer starts to wait again
			t.Errorf("looked at %d times in ten days", looks)
		}
	})
}

// An unplugged is a transport that can be interrupted.
type unplugged struct {
	http.RoundTripper
	cut atomic.Bool
}

func (u *unplugged) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.cut.Load() {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, syscall.ECONNREFUSED
	}
	return u.RoundTripper.RoundTrip(r)
}

// TestLeadersInBubble runs two managers, of which one leads for days; then it loses the server, and
// the other one takes over when the lease has expired. It stops days later, and releases the lease.
func TestLeadersInBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		var leads atomic.Value
		begin := func(name string, config *rest.Config) (stop context.CancelFunc, stopped chan error, mgr manager.Manager) {
			mgr = newManager(t, config, func(o *ctrl.Options) {
				o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace, o.LeaderElectionReleaseOnCancel = true, "lock", "default", true
				o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = new(15*time.Minute), new(10*time.Minute), new(2*time.Minute)
			})
			check(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				leads.Store(name)
				return reconcile.Result{RequeueAfter: time.Hour}, nil
			})))
			ctx, cancel := context.WithCancel(env.Context())
			stopped = make(chan error, 1)
			go func() { stopped <- mgr.Start(ctx) }()
			return cancel, stopped, mgr
		}
		env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}})
		first := env.Config()
		plug := &unplugged{RoundTripper: first.Transport}
		first.Transport = plug
		stop, lost, mgr := begin("first", first)
		defer stop()
		<-mgr.Elected()
		stop2, stopped, _ := begin("second", env.Config())
		defer stop2()

		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"}}
		pass(2 * day)
		env.Settle()
		env.Get(lease)
		if leads.Load() != "first" || *lease.Spec.LeaseTransitions != 0 || time.Since(lease.Spec.RenewTime.Time) > 3*time.Minute {
			t.Errorf("after two days %v leads: %+v", leads.Load(), lease.Spec)
		}
		plug.cut.Store(true)
		cut := time.Now()
		if err := <-lost; err == nil || !strings.Contains(err.Error(), "leader election lost") {
			t.Errorf("the first manager stops with %v", err)
		}
		if took := time.Since(cut); took < 6*time.Minute || took > 12*time.Minute {
			t.Errorf("it stops after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		env.WaitFor(ctx, lease, func() bool { return *lease.Spec.LeaseTransitions == 1 })
		// The other one retries every 2 to 4.4 minutes, which delays both its observation of the
		// last renewal and that of the expiry.
		if took := time.Since(cut); took < 12*time.Minute || took > 24*time.Minute {
			t.Errorf("the second manager leads after %v", took)
		}
		pass(2 * day)
		if leads.Load() != "second" {
			t.Errorf("%v leads", leads.Load())
		}
		stop2()
		if err := <-stopped; err != nil {
			t.Errorf("the second manager stops with %v", err)
		}
		env.Get(lease)
		if *lease.Spec.HolderIdentity != "" {
			t.Errorf("the lease is not given back: %+v", lease.Spec)
		}
	})
}

// A repeated event is one event with a count, and similar events are combined.
func TestEventsInBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		mgr := newManager(t, env.Config(), nil)
		env.Go(mgr.Start)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}}
		env.Create(cm)
		old := mgr.GetEventRecorderFor("old") //nolint:staticcheck // many programs still have it
		for range 4 {
			old.Event(cm, corev1.EventTypeWarning, "Again", "the same")
			time.Sleep(10 * time.Minute)
		}
		for n := range 15 {
			old.Eventf(cm, corev1.EventTypeWarning, "Alike", "number %d", n)
			time.Sleep(time.Second)
		}
		series := mgr.GetEventRecorder("new")
		for range 5 {
			series.Eventf(cm, nil, corev1.EventTypeNormal, "Series", "Trying", "the same")
			time.Sleep(time.Minute)
		}
		env.Settle()
		list := &corev1.EventList{}
		check(t, env.Client().List(t.Context(), list))
		said := map[string]int{}
		for _, e := range list.Items {
			n := int(e.Count)
			if e.Series != nil {
				n = int(e.Series.Count)
			}
			said[e.Reason+": "+e.Message] += n
		}
		if said["Again: the same"] != 4 || said["Alike: (combined from similar events): number 14"] != 6 || said["Alike: number 8"] != 1 {
			t.Errorf("of the old recorder: %v", said)
		}
		if said["Series: the same"] < 2 {
			t.Errorf("of the new recorder: %v", said)
		}
		time.Sleep(2 * time.Hour)
		check(t, env.Client().List(t.Context(), list))
		if len(list.Items) != 0 {
			t.Errorf("after two hours there are %d events", len(list.Items))
		}
	})
}

// TestGracefulStopInBubble checks that a manager that stops waits for reconciliations, for a
// limited time.
func TestGracefulStopInBubble(t *testing.T) {
	for _, tc := range []struct {
		takes, patience, want time.Duration
		errors                bool
	}{
		{takes: 20 * time.Second, patience: 30 * time.Second, want: 20 * time.Second},
		{takes: time.Hour, patience: 30 * time.Second, want: 30 * time.Second, errors: true},
	} {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			mgr := newManager(t, env.Config(), func(o *ctrl.Options) { o.GracefulShutdownTimeout = &tc.patience })
			busy := make(chan struct{})
			check(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				close(busy)
				time.Sleep(tc.takes)
				return reconcile.Result{}, nil
			})))
			ctx, cancel := context.WithCancel(t.Context())
			stopped := make(chan error, 1)
			go func() { stopped <- mgr.Start(ctx) }()
			env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}})
			<-busy
			cancel()
			begin := time.Now()
			if err := <-stopped; (err != nil) != tc.errors {
				t.Errorf("stops with %v", err)
			}
			if took := time.Since(begin); took < tc.want || took > tc.want+time.Second {
				t.Errorf("stops after %v, want %v", took, tc.want)
			}
			time.Sleep(tc.takes) // no goroutine may outlive the bubble
		})
	}
}

// TestTurnedAwayInBubble checks that a manager whose requests are sometimes rejected reaches the
// same state: no goroutine sleeps under the locks of its cache.
func TestTurnedAwayInBubble(t *testing.T) {
	kapoktest.Explore(t, 30, kapoktest.Faults{TooManyRequests: 0.05, Begin: kapoktest.BeginAtOnce}, func(t testing.TB, env *kapoktest.Env) {
		mgr := newManager(t, env.Config(), nil)
		s := &sets{Client: mgr.GetClient(), mgr: mgr, looks: map[string][]time.Time{}}
		check(t, ctrl.NewControllerManagedBy(mgr).For(&appsv1.ReplicaSet{}).Owns(&corev1.Pod{}).Complete(s))
		check(t, ctrl.NewControllerManagedBy(mgr).For(&batchv1.Job{}).Complete(&jobs{mgr.GetClient()}))
		env.Go(mgr.Start)
		env.Create(replicaSet("default", "web", 1))
		env.WaitFor(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}, func() bool { return true })
	})
}

// A told is a TB that keeps its messages.
type told struct {
	testing.TB
	text strings.Builder
}

func (o *told) Errorf(format string, args ...any) { fmt.Fprintf(&o.text, format, args...) }

// TestHotLoopInBubble checks that a controller that reacts to its own writes with writes is
// reported, and that the test ends.
func TestHotLoopInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &told{TB: t}
		env := kapoktest.Start(said)
		mgr := newManager(t, env.Config(), nil)
		looks := 0
		check(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return o.GetName() == "hot"
		}))).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			cm := &corev1.ConfigMap{}
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, cm); err != nil {
				return reconcile.Result{}, err
			}
			before := cm.DeepCopy()
			looks++
			cm.Data = map[string]string{"looks": fmt.Sprint(looks)}
			return reconcile.Result{}, mgr.GetClient().Patch(ctx, cm, client.MergeFrom(before))
		})))
		env.Go(mgr.Start)
		env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hot"}})
		time.Sleep(time.Hour)
		synctest.Wait()
		if !strings.Contains(said.text.String(), "\n  20001 x PATCH /api/v1/namespaces/default/configmaps/hot") {
			t.Errorf("it says %q", said.text.String())
		}
	})
}
