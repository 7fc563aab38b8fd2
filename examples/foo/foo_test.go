package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/examples/foo/api/v1alpha1"
	"github.com/kapok-dev/kapok/examples/internal/exampletest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = types.NamespacedName{Namespace: "default", Name: "example-foo"}

// The whole life of the tutorial: a Foo makes a Deployment, which follows it and is restored, and
// goes with it.
func TestTutorial(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecontroller.k8s.io_foos.yaml")
		w.run(ctrl.Options{})
		time.Sleep(time.Second)
		w.Logged("INFO Setting up event handlers", "INFO Starting Foo controller", "INFO Waiting for informer caches to sync",
			"INFO Starting workers worker count=2", "INFO Started workers")

		w.Apply("samples/example-foo.yaml")
		time.Sleep(time.Second)
		w.Logged("INFO Successfully synced 'default/example-foo'")
		foo, deployment := w.foo(), w.deployment("example-foo")
		if !metav1.IsControlledBy(deployment, foo) || *deployment.Spec.Replicas != 1 {
			t.Errorf("the Deployment has %d replicas and the owners %+v, want 1 and %s", *deployment.Spec.Replicas, deployment.OwnerReferences, foo.UID)
		}
		if got, want := w.events(), []string{"Normal Synced"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}

		// What a controller of Deployments would do once the pods run.
		before := deployment.DeepCopy()
		deployment.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		w.Must(w.Client.Status().Patch(t.Context(), deployment, client.MergeFrom(before)))
		time.Sleep(time.Second)
		if got := w.foo().Status.AvailableReplicas; got != 1 {
			t.Errorf("status: %d available replicas, want 1", got)
		}

		replicas := func(want int32) {
			t.Helper()
			time.Sleep(time.Second)
			if got := *w.deployment("example-foo").Spec.Replicas; got != want {
				t.Errorf("the Deployment has %d replicas, want %d", got, want)
			}
		}
		w.patch(foo, `{"spec":{"replicas":3}}`)
		replicas(3)
		w.patch(deployment, `{"spec":{"replicas":5}}`) // by hand
		replicas(3)
		w.patch(foo, `{"spec":{"replicas":0}}`)
		replicas(0)
		w.patch(foo, `{"spec":{"replicas":null}}`) // now the Deployment says itself
		replicas(0)
		w.patch(deployment, `{"spec":{"replicas":5}}`)
		replicas(5)
		w.patch(foo, `{"spec":{"replicas":2}}`)
		replicas(2)

		w.Must(w.Client.Delete(t.Context(), deployment))
		replicas(2)
		if again := w.deployment("example-foo"); again.UID == deployment.UID {
			t.Error("the Deployment was not deleted")
		}

		w.patch(foo, `{"spec":{"deploymentName":"another"}}`)
		time.Sleep(time.Second)
		if got, want := w.deployments(), []string{"another"}; !slices.Equal(got, want) {
			t.Errorf("Deployments %q, want %q", got, want)
		}

		w.Must(w.Client.Delete(t.Context(), foo))
		time.Sleep(time.Minute)
		if got := w.deployments(); len(got) > 0 {
			t.Errorf("Deployments %q, want none without the Foo", got)
		}
		w.Stop()
	})
}

// TestAvailable checks that a Foo shows the available replicas of a Deployment that lives.
func TestAvailable(t *testing.T) {
	w := newWorld(t)
	w.Controllers = controllers.Options{Names: []string{"deployment", "replicaset"}}
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecontroller.k8s.io_foos.yaml")
		w.run(ctrl.Options{})
		w.Apply("samples/example-foo.yaml")
		time.Sleep(time.Second)
		w.patch(w.foo(), `{"spec":{"replicas":3}}`)
		time.Sleep(time.Second)
		var pods corev1.PodList
		w.Must(w.Client.List(t.Context(), &pods))
		if len(pods.Items) != 3 {
			t.Fatalf("%d pods, want 3", len(pods.Items))
		}
		for ready := range pods.Items {
			pod := &pods.Items[ready]
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			w.Must(w.Client.Status().Update(t.Context(), pod))
			time.Sleep(time.Second)
			if got := w.foo().Status.AvailableReplicas; got != int32(ready+1) {
				t.Errorf("status: %d available replicas, want %d", got, ready+1)
			}
		}
		w.Must(w.Client.Delete(t.Context(), w.foo()))
		time.Sleep(time.Minute)
		w.Must(w.Client.List(t.Context(), &pods))
		if len(pods.Items) != 0 {
			t.Errorf("%d pods without the Foo", len(pods.Items))
		}
		w.Stop()
	})
}

// TestResourceExists checks that a Deployment without an owner, or with another one, is left alone:
// the Foo gets a warning event, and is retried until the name is free.
func TestResourceExists(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecontroller.k8s.io_foos.yaml")
		foreign := newDeployment(&v1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign"},
			Spec: v1alpha1.FooSpec{DeploymentName: "example-foo"}})
		w.Must(w.Client.Create(t.Context(), foreign))
		w.run(ctrl.Options{})
		w.Apply("samples/example-foo.yaml")
		time.Sleep(time.Minute)
		w.Logged(`error syncing 'default/example-foo': deployment "example-foo" exists and is not controlled by this Foo, requeuing`,
			`error syncing 'default/example-foo': deployment "example-foo" exists and is not controlled by this Foo, requeuing`)
		if got, want := w.events(), []string{"Warning ErrResourceExists"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if now := w.deployment("example-foo"); now.ResourceVersion != foreign.ResourceVersion {
			t.Errorf("the Deployment of another owner was changed: %+v", now)
		}
		w.Must(w.Client.Delete(t.Context(), foreign))
		time.Sleep(20 * time.Minute)
		if got, want := w.events(), []string{"Normal Synced", "Warning ErrResourceExists"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if !metav1.IsControlledBy(w.deployment("example-foo"), w.foo()) {
			t.Error("the Deployment does not belong to the Foo")
		}
		w.Stop()
	})
}

// A Foo is looked at in each resync, a Deployment only when it has changed.
func TestResync(t *testing.T) {
	for _, test := range []struct {
		name  string
		never client.Object // has no resyncs
		want  int           // syncs in an hour
	}{
		{"only Foos", &appsv1.Deployment{}, 120},
		{"only Deployments", &v1alpha1.Foo{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			synctest.Test(t, func(t *testing.T) {
				w.Start(t)
				w.Apply("crd/samplecontroller.k8s.io_foos.yaml")
				w.Apply("samples/example-foo.yaml")
				var opts ctrl.Options
				opts.Cache.ByObject = map[client.Object]cache.ByObject{test.never: {SyncPeriod: new(time.Duration)}}
				w.run(opts)
				time.Sleep(10 * time.Second)
				w.Log.Clear()
				time.Sleep(time.Hour)
				if got := w.Log.Count("Successfully synced"); got != test.want {
					t.Errorf("%d syncs in an hour, want %d:\n%s", got, test.want, w.Log)
				}
				w.Stop()
			})
		})
	}
}

// What the server refuses: at once, or when the controller comes with it, which then tries until
// the Foo is corrected.
func TestInvalid(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecontroller.k8s.io_foos.yaml")
		w.run(ctrl.Options{})
		minus := int32(-1)
		for _, spec := range []v1alpha1.FooSpec{{}, {DeploymentName: strings.Repeat("x", 254)}, {DeploymentName: "No_Name"}, {DeploymentName: ".."}, {DeploymentName: "x", Replicas: &minus}} {
			foo := &v1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: spec}
			if err := w.Client.Create(t.Context(), foo); !apierrors.IsInvalid(err) {
				t.Errorf("%+v: %v", spec, err)
			}
		}
		w.Stop()
	})
}

// Names may be longer than labels.
func TestLongName(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecontroller.k8s.io_foos.yaml")
		w.run(ctrl.Options{})
		name := strings.Repeat("x", 253)
		w.Must(w.Client.Create(t.Context(), &v1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: v1alpha1.FooSpec{DeploymentName: name}}))
		time.Sleep(time.Second)
		if d := w.deployment(name); *d.Spec.Replicas != 1 {
			t.Errorf("%d replicas, want 1 for a Foo without replicas", *d.Spec.Replicas)
		}
		w.Stop()
	})
}

// Two controllers run, one acts; when it ends, the other takes over.
func TestLeaderElection(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.Start(t)
		w.Apply("crd/samplecontroller.k8s.io_foos.yaml")
		opts := ctrl.Options{LeaderElection: true, LeaderElectionNamespace: "default"}
		w.run(opts)
		time.Sleep(time.Second)
		second := world{w.Beside()}
		second.run(opts)
		w.Apply("samples/example-foo.yaml")
		time.Sleep(time.Minute)
		if w.Log.Count("Successfully synced") == 0 || second.Log.Count("Successfully synced") > 0 {
			t.Errorf("want the first to act, and not the second:\n%s\nsecond:\n%s", w.Log, second.Log)
		}
		w.StopController()
		time.Sleep(time.Minute)
		if second.Log.Count("Successfully synced") == 0 {
			t.Errorf("the second does not take over:\n%s", second.Log)
		}
		second.Stop()
	})
}

// Without -master and -kubeconfig it is as in any client: the environment, then the service account
// of the pod.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	const kubeconfig = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://file:1"}}]}`
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, test := range []struct{ master, kubeconfig, environment, want string }{
		{"http://flag:1", "", "", "http://flag:1"},
		{"", file, "", "http://file:1"},
		{"http://flag:1", file, "", "http://flag:1"},
		{"", "", file, "http://file:1"},
		{"", file + "x", file, "API server configuration"},
	} {
		t.Setenv("KUBECONFIG", test.environment)
		cfg, err := config(test.master, test.kubeconfig)
		got := fmt.Sprint(err)
		if err == nil {
			got = cfg.Host
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// A world is one with a controller of Foos.
type world struct{ *exampletest.World }

func newWorld(t *testing.T) world {
	return world{exampletest.New(t, "manifests", v1alpha1.AddToScheme)}
}

func (w world) run(opts ctrl.Options) {
	w.Run(func(ctx context.Context, cfg *rest.Config, logger logr.Logger) error {
		opts.Logger = logger
		return run(ctx, cfg, opts)
	})
}

func (w world) foo() *v1alpha1.Foo {
	w.Helper()
	foo := &v1alpha1.Foo{}
	w.Must(w.Client.Get(w.Context(), key, foo))
	return foo
}

func (w world) deployment(name string) *appsv1.Deployment {
	w.Helper()
	deployment := &appsv1.Deployment{}
	w.Must(w.Client.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: name}, deployment))
	return deployment
}

// deployments are the names of all Deployments.
func (w world) deployments() (names []string) {
	w.Helper()
	list := &appsv1.DeploymentList{}
	w.Must(w.Client.List(w.Context(), list))
	for _, d := range list.Items {
		names = append(names, d.Name)
	}
	return names
}

// events are the events of Foos, as type and reason, sorted, each once.
func (w world) events() (events []string) {
	w.Helper()
	list := &corev1.EventList{}
	w.Must(w.Client.List(w.Context(), list))
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "Foo" {
			events = append(events, e.Type+" "+e.Reason)
		}
	}
	slices.Sort(events)
	return slices.Compact(events)
}

func (w world) patch(obj client.Object, patch string) {
	w.Helper()
	w.Must(w.Client.Patch(w.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch))))
}
