package clients

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// seen has the media types that clients requested and received.
type seen struct {
	mu    sync.Mutex
	lines map[string]bool // distinct lines "METHOD PATH wanted TYPE got TYPE"
}

// A noted is a transport that records its traffic.
type noted struct {
	http.RoundTripper
	by *seen
}

const asProtobuf = "application/vnd.kubernetes.protobuf"

func (n *noted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.RoundTripper.RoundTrip(r)
	if err == nil {
		wanted, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
		got, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
		wanted, _, _ = strings.Cut(wanted, ";")
		verb := r.Method
		if r.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		n.by.mu.Lock()
		defer n.by.mu.Unlock()
		n.by.lines[verb+" "+r.URL.Path+" wanted "+wanted+" got "+got] = true
	}
	return answer, err
}

// TestManagerDefaults runs a manager with its default settings, including leader election, for
// built-in kinds: it requests protobuf, and gets only that.
func TestManagerDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := kapok.Start(t.Context(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Stop()
		cfg := srv.Config()
		traffic := &seen{lines: map[string]bool{}}
		cfg.WrapTransport = transport.Wrappers(cfg.WrapTransport, func(rt http.RoundTripper) http.RoundTripper {
			return &noted{rt, traffic}
		})
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Scheme:                        scheme.Scheme,
			Metrics:                       server.Options{BindAddress: "0"},
			Controller:                    config.Controller{SkipNameValidation: new(true)},
			LeaderElection:                true,
			LeaderElectionID:              "manager",
			LeaderElectionNamespace:       "default",
			LeaderElectionReleaseOnCancel: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		c := mgr.GetClient()
		err = ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).Owns(&corev1.Pod{}).Complete(reconcile.Func(
			func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				d := &appsv1.Deployment{}
				if err := c.Get(ctx, r.NamespacedName, d); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				pods := &corev1.PodList{}
				if err := c.List(ctx, pods, client.InNamespace(d.Namespace)); err != nil {
					return reconcile.Result{}, err
				}
				if len(pods.Items) == 0 {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace}, Spec: d.Spec.Template.Spec}
					if err := ctrl.SetControllerReference(d, pod, mgr.GetScheme()); err != nil {
						return reconcile.Result{}, err
					}
					return reconcile.Result{}, client.IgnoreAlreadyExists(c.Create(ctx, pod))
				}
				d.Status.Replicas, d.Status.ObservedGeneration = int32(len(pods.Items)), d.Generation
				return reconcile.Result{}, c.Status().Update(ctx, d)
			}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- mgr.Start(ctx) }()

		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "d"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
			},
		}}
		if err := c.Create(ctx, d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := mgr.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(d), d); err != nil || d.Status.Replicas != 1 {
			t.Errorf("status of the deployment: %+v, %v", d.Status, err)
		}
		lease := &coordinationv1.Lease{}
		if err := mgr.GetAPIReader().Get(ctx, client.ObjectKey{Namespace: "default", Name: "manager"}, lease); err != nil || lease.Spec.RenewTime == nil {
			t.Fatalf("lease of the manager: %v, %v", lease, err)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age > 10*time.Second || age < 0 {
			t.Errorf("the lease was renewed %v ago", age)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}

		traffic.mu.Lock()
		defer traffic.mu.Unlock()
		lines := slices.Sorted(maps.Keys(traffic.lines))
		for _, line := range lines {
			if strings.Contains(line, "wanted "+asProtobuf) && !strings.HasSuffix(line, "got "+asProtobuf) {
				t.Error(line)
			}
		}
		for _, want := range []string{
			"GET /apis/apps/v1/namespaces/default/deployments/d", "WATCH /apis/apps/v1/deployments", "WATCH /api/v1/pods",
			"POST /api/v1/namespaces/default/pods", "PUT /apis/apps/v1/namespaces/default/deployments/d/status",
		} {
			if !slices.Contains(lines, want+" wanted "+asProtobuf+" got "+asProtobuf) {
				t.Errorf("not seen in protobuf: %s", want)
			}
		}
	})
}
