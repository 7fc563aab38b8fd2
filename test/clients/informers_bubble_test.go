package clients

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func aConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// TestClientGoInBubble runs client-go's tools for controllers, each for days.
func TestClientGoInBubble(t *testing.T) {
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	// informer counts an informer's events for an object that is updated a day later, and deleted
	// after another.
	informer := func(make func(t *testing.T, env *kapoktest.Env) (cache.SharedIndexInformer, func(stop <-chan struct{}), func())) func(*testing.T, *kapoktest.Env, *kubernetes.Clientset) {
		return func(t *testing.T, env *kapoktest.Env, _ *kubernetes.Clientset) {
			shared, start, shutdown := make(t, env)
			var added, updated, deleted, resynced int
			_, err := shared.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { added++ },
				UpdateFunc: func(before, after any) {
					if before.(metav1.Object).GetResourceVersion() == after.(metav1.Object).GetResourceVersion() {
						resynced++
					} else {
						updated++
					}
				},
				DeleteFunc: func(any) { deleted++ },
			}, 10*time.Hour)
			check(t, err)
			env.Go(func(ctx context.Context) error {
				start(ctx.Done())
				<-ctx.Done()
				shutdown()
				return nil
			})
			cm := aConfigMap("a")
			env.Create(cm)
			time.Sleep(day)
			env.Update(cm, func() { cm.Data = map[string]string{"k": "v"} })
			time.Sleep(day)
			env.Delete(cm)
			env.Settle()
			if added < 1 || updated != 1 || deleted != 1 || resynced < 4 {
				t.Errorf("%d added, %d updated, %d deleted, %d told again", added, updated, deleted, resynced)
			}
		}
	}
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, env *kapoktest.Env, client *kubernetes.Clientset)
	}{
		{"shared informers", informer(func(t *testing.T, env *kapoktest.Env) (cache.SharedIndexInformer, func(<-chan struct{}), func()) {
			client, err := kubernetes.NewForConfig(env.Config())
			check(t, err)
			f := informers.NewSharedInformerFactoryWithOptions(client, time.Hour, informers.WithNamespace("default"),
				informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=a" }))
			return f.Core().V1().ConfigMaps().Informer(), f.Start, f.Shutdown
		})},
		{"dynamic informers", informer(func(t *testing.T, env *kapoktest.Env) (cache.SharedIndexInformer, func(<-chan struct{}), func()) {
			client, err := dynamic.NewForConfig(env.Config())
			check(t, err)
			f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, time.Hour, "default",
				func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=a" })
			return f.ForResource(configMaps).Informer(), f.Start, f.Shutdown
		})},
		{"metadata informers", informer(func(t *testing.T, env *kapoktest.Env) (cache.SharedIndexInformer, func(<-chan struct{}), func()) {
			client, err := metadata.NewForConfig(env.Config())
			check(t, err)
			f := metadatainformer.NewFilteredSharedInformerFactory(client, time.Hour, "default",
				func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=a" })
			return f.ForResource(configMaps).Informer(), f.Start, f.Shutdown
		})},
		{"leader election", func(t *testing.T, env *kapoktest.Env, client *kubernetes.Clientset) {
			var leads []string
			begin := func(name string) (stop context.CancelFunc) {
				ctx, cancel := context.WithCancel(env.Context())
				elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
					Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"}, Client: client.CoordinationV1(),
						LockConfig: resourcelock.ResourceLockConfig{Identity: name}},
					LeaseDuration: time.Hour, RenewDeadline: 40 * time.Minute, RetryPeriod: 5 * time.Minute, ReleaseOnCancel: name == "a",
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { leads = append(leads, name) },
						OnStoppedLeading: func() {},
					},
				})
				check(t, err)
				env.Go(func(context.Context) error {
					elector.Run(ctx)
					return nil
				})
				return cancel
			}
			stop := begin("a")
			pass(day)
			stopB := begin("b")
			pass(day)
			stop() // releases the lease
			pass(15 * time.Minute)
			stopC := begin("c")
			pass(day)
			stopB() // does not release it
			pass(50 * time.Minute)
			if fmt.Sprint(leads) != "[a b]" {
				t.Errorf("led have %v", leads)
			}
			pass(40 * time.Minute) // c sees the lease up to eleven minutes late, and retries as late
			if fmt.Sprint(leads) != "[a b c]" {
				t.Errorf("led have %v", leads)
			}
			stopC()
		}},
		{"event broadcaster", func(t *testing.T, env *kapoktest.Env, client *kubernetes.Clientset) {
			broadcaster := record.NewBroadcaster()
			defer broadcaster.Shutdown()
			broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
			recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
			cm := aConfigMap("a")
			env.Create(cm)
			for range 3 {
				recorder.Event(cm, corev1.EventTypeNormal, "Again", "the same")
				time.Sleep(20 * time.Minute)
			}
			events, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
			check(t, err)
			if len(events.Items) != 1 || events.Items[0].Count != 3 || events.Items[0].LastTimestamp.Sub(events.Items[0].FirstTimestamp.Time) != 40*time.Minute {
				t.Errorf("events are %v", events.Items)
			}
		}},
		{"work queue", func(t *testing.T, env *kapoktest.Env, _ *kubernetes.Clientset) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour))
			begin := time.Now()
			q.AddAfter("late", 3*day)
			var took []time.Duration
			for range 14 {
				q.AddRateLimited("fails")
				key, _ := q.Get()
				took = append(took, time.Since(begin))
				q.Done(key)
			}
			if want := time.Duration(1<<12-1)*time.Second + 2*time.Hour; took[13] != want {
				t.Errorf("the last try was after %v, want %v: %v", took[13], want, took)
			}
			if key, _ := q.Get(); key != "late" || time.Since(begin) != 3*day {
				t.Errorf("%s after %v", key, time.Since(begin))
			}
			q.Done("late")
			q.ShutDown() // after ShutDownWithDrain alone, a goroutine of client-go would remain
		}},
		{"retrying watch", func(t *testing.T, env *kapoktest.Env, client *kubernetes.Clientset) {
			list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			check(t, err)
			w, err := toolswatch.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					return client.CoreV1().ConfigMaps("default").Watch(ctx, o)
				},
			})
			check(t, err)
			for n := range 3 {
				env.Create(aConfigMap(fmt.Sprint("w", n)))
				if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != fmt.Sprint("w", n) {
					t.Errorf("event %v", e)
				}
				time.Sleep(day) // during which the server ends a watch each hour
			}
			w.Stop()
			<-w.Done()
		}},
		{"conditions that are polled", func(t *testing.T, env *kapoktest.Env, client *kubernetes.Clientset) {
			time.AfterFunc(5*time.Hour, func() {
				_, _ = client.CoreV1().ConfigMaps("default").Create(env.Context(), aConfigMap("late"), metav1.CreateOptions{})
			})
			begin := time.Now()
			check(t, wait.PollUntilContextTimeout(t.Context(), time.Minute, day, true, func(ctx context.Context) (bool, error) {
				_, err := client.CoreV1().ConfigMaps("default").Get(ctx, "late", metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return true, err
			}))
			if took := time.Since(begin); took < 5*time.Hour || took > 5*time.Hour+time.Minute {
				t.Errorf("it took %v", took)
			}
		}},
		{"limit of the client's rate", func(t *testing.T, env *kapoktest.Env, _ *kubernetes.Clientset) {
			config := env.Config()
			config.QPS, config.Burst = 0.01, 1
			slow, err := kubernetes.NewForConfig(config)
			check(t, err)
			begin := time.Now()
			for range 3 {
				_, err := slow.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
				check(t, err)
			}
			if took := time.Since(begin); took < 199*time.Second || took > 201*time.Second {
				t.Errorf("three requests took %v", took)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				client, err := kubernetes.NewForConfig(env.Config())
				check(t, err)
				tc.run(t, env, client)
			})
		})
	}
}

// TestManyBubbles checks that bubbles leave nothing behind in the process that affects the next
// one, or a test in real time: managers and clients with errors to report, in 50 bubbles one after
// the other, and in parallel tests.
func TestManyBubbles(t *testing.T) {
	work := func(t *testing.T, env *kapoktest.Env, rest func()) {
		mgr := newManager(t, env.Config(), nil)
		seen := make(chan struct{})
		var once sync.Once
		tries := 0
		check(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			if tries++; tries == 1 {
				return reconcile.Result{}, fmt.Errorf("for once")
			}
			once.Do(func() { close(seen) })
			mgr.GetEventRecorder("many").Eventf(aConfigMap("a"), nil, corev1.EventTypeNormal, "Seen", "Looking", "it is there")
			return reconcile.Result{}, nil
		})))
		ctx, cancel := context.WithCancel(env.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		env.Create(aConfigMap("a"))
		<-seen
		rest()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Run("beside", func(t *testing.T) {
		for n := range 4 {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				for range 5 {
					work(t, kapoktest.Start(t), func() {})
				}
			})
		}
		t.Run("bubbles", func(t *testing.T) {
			t.Parallel()
			for range 50 {
				kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
					work(t, env, func() { time.Sleep(time.Hour); env.Settle() })
				})
			}
		})
	})
}
