package nodes

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/node/simulated"
	"github.com/kapok-dev/kapok/scheduler"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// withMetrics are simulated nodes whose metrics the server serves.
func withMetrics(nodes int) kapoktest.Option {
	return kapoktest.Server(func(o *kapok.Options) {
		m := &simulated.Metrics{}
		o.Aggregation.Handlers = map[schema.GroupVersion]http.Handler{simulated.MetricsVersion: m}
		o.Controllers = kapok.Together{controllers.Options{}, scheduler.Options{}, simulated.Options{Nodes: nodes, Metrics: m}}
	})
}

// using returns a Deployment whose containers request 100m of CPU and 64Mi of memory.
func using(name string, replicas int32, simulation string) client.Object {
	d := deployment(name, replicas)
	d.Spec.Template.Annotations = map[string]string{simulated.SimulationAnnotation: simulation}
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	return d
}

// TestAutoscaler checks that a HorizontalPodAutoscaler scales a Deployment up while its pods are
// busy, and down when they no longer are.
func TestAutoscaler(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(using("web", 1, `containers: {"*": {cpu: 10m, usage: [{after: 1m, cpu: 90m}, {after: 30m, cpu: 5m}]}}`))
		env.Create(&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
				MinReplicas:    new(int32(1)), MaxReplicas: 5,
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
				}}},
			},
		})
		for _, step := range []struct {
			after time.Duration
			want  int32
		}{{50 * time.Second, 1}, {15 * time.Minute, 5}, {time.Hour, 1}} {
			time.Sleep(step.after)
			web := deployment("web", 1)
			env.Get(web)
			if web.Status.ReadyReplicas != step.want {
				hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
				env.Get(hpa)
				t.Errorf("after another %v: %d replicas are ready, want %d\n%+v", step.after, web.Status.ReadyReplicas, step.want, hpa.Status)
			}
		}
	}, withMetrics(2))
}

// TestMetrics checks what the metrics API answers.
func TestMetrics(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.Create(using("web", 2, `containers: {"*": {cpu: 300m, memory: 100Mi}}`), using("idle", 1, `{}`), deployment("plain", 1))
		env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "broken", Annotations: map[string]string{simulated.NodeAnnotation: simulated.Down},
		}})
		lost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "elsewhere"}, Spec: corev1.PodSpec{
			NodeName: "real", Containers: []corev1.Container{{Name: "c", Image: "web:1"}},
		}}
		env.Create(lost)
		time.Sleep(time.Minute)
		clients, err := kubernetes.NewForConfig(env.Config())
		if err != nil {
			t.Fatal(err)
		}
		get := func(config kubernetes.Interface, path, accept string) (string, error) {
			result := config.CoreV1().RESTClient().Get().RequestURI("/apis/metrics.k8s.io/v1beta1/"+path).SetHeader("Accept", accept).Do(env.Context())
			body, _ := result.Raw()
			return string(body), result.Error()
		}
		list := func(path string) (lines []string) {
			t.Helper()
			body, err := get(clients, path, "application/json")
			var all struct {
				Items []struct {
					Metadata   metav1.ObjectMeta
					Window     string
					Usage      map[string]string
					Containers []struct {
						Name  string
						Usage map[string]string
					}
				}
			}
			if err != nil || json.Unmarshal([]byte(body), &all) != nil {
				t.Fatalf("%s: %v %s", path, err, body)
			}
			for _, item := range all.Items {
				line, _, _ := strings.Cut(item.Metadata.Name, "-")
				if item.Usage != nil {
					line = item.Metadata.Name + " " + item.Usage["cpu"] + " " + item.Usage["memory"]
				}
				for _, c := range item.Containers {
					line += " " + c.Name + " " + c.Usage["cpu"] + " " + c.Usage["memory"]
				}
				lines = append(lines, line+" "+item.Window)
			}
			return lines
		}
		for path, want := range map[string]string{
			"namespaces/default/pods": "idle c 10m 32Mi 15s, plain c 1m 16Mi 15s, web c 300m 100Mi 15s, web c 300m 100Mi 15s",
			"pods?labelSelector=app%3Dweb&fieldSelector=metadata.namespace%3Ddefault": "web c 300m 100Mi 15s, web c 300m 100Mi 15s",
			"namespaces/other/pods": "",
			"nodes":                 "node-0 611m 248Mi 15s",
			"nodes?fieldSelector=metadata.name%3Dnone": "",
		} {
			if got := strings.Join(list(path), ", "); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}

		const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
		for _, test := range []struct{ path, accept, want, failure string }{
			{"nodes/node-0", "application/json", `"kind":"NodeMetrics"`, ""},
			{"nodes/node-0", asTable, `"cells":["node-0","611m","248Mi","15s"],"object":{"kind":"PartialObjectMetadata"`, ""},
			{"nodes/node-0?includeObject=None", asTable, `"object":null`, ""},
			{"nodes", "application/yaml", "kind: NodeMetricsList", ""},
			{"nodes", "application/vnd.kubernetes.protobuf", "k8s\x00", ""},
			{"nodes", "text/plain", "", "only the following media types are accepted"},
			{"nodes/real", "", "", `nodemetrics.metrics.k8s.io "real" not found`},
			{"nodes/broken", "", "", `nodemetrics.metrics.k8s.io "broken" not found`},
			{"namespaces/default/pods/elsewhere", "", "", `podmetrics.metrics.k8s.io "default/elsewhere" not found`},
			{"namespaces/default/pods/none", "", "", `pods "default/none" not found`},
			{"pods?watch=true", "", "", "watch is not supported"},
			{"pods?labelSelector=%21%21", "", "", "unable to parse requirement"},
			{"pods?fieldSelector=spec.nodeName%3Dx", "", "", "is not a known field selector"},
			{"things", "", "", "the server could not find the requested resource"},
		} {
			body, err := get(clients, test.path, test.accept)
			switch {
			case test.failure == "" && (err != nil || !strings.Contains(body, test.want)):
				t.Errorf("%s as %q: %v %q, want %q", test.path, test.accept, err, body, test.want)
			case test.failure != "" && (err == nil || !strings.Contains(err.Error()+body, test.failure)):
				t.Errorf("%s as %q: %v %q, want the error %q", test.path, test.accept, err, body, test.failure)
			}
		}

		of := func(config *rest.Config) kubernetes.Interface { return kubernetes.NewForConfigOrDie(config) }
		if _, err := get(of(env.As("jane")), "nodes", ""); err == nil || !strings.Contains(err.Error(), `User "jane" cannot list resource "nodes" in API group "metrics.k8s.io"`) {
			t.Errorf("a user without permission: %v", err)
		}
		env.Create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "jane"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		})
		time.Sleep(time.Second)
		if _, err := get(of(env.As("jane")), "nodes", ""); err != nil {
			t.Errorf("a user with the role view: %v", err)
		}

		resources, err := clients.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
		if err != nil || len(resources.APIResources) != 2 {
			t.Errorf("discovery: %+v, %v", resources, err)
		}
	}, withMetrics(1))
}

func schemeWithAPIServices(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestRegisteredMetrics checks that a metrics-server which registers itself serves its metrics, and
// that the simulated ones return when it is gone.
func TestRegisteredMetrics(t *testing.T) {
	scheme := kapoktest.Scheme(schemeWithAPIServices(t))
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		clients, err := kubernetes.NewForConfig(env.Config())
		if err != nil {
			t.Fatal(err)
		}
		serves := func() bool {
			time.Sleep(time.Minute)
			_, err := clients.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").DoRaw(env.Context())
			if err != nil && !strings.Contains(err.Error(), "unable to handle the request") {
				t.Error(err)
			}
			return err == nil
		}
		service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.metrics.k8s.io"}}
		env.Get(service)
		if !serves() || service.Spec.Service != nil || service.Spec.GroupPriorityMinimum != 100 {
			t.Errorf("the simulated metrics are not served: %+v", service)
		}
		env.Update(service, func() {
			service.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "kube-system", Name: "metrics-server"}
			service.Spec.InsecureSkipTLSVerify = true
		})
		if serves() {
			t.Error("the simulated metrics are served although a metrics-server is registered")
		}
		env.Restart()
		env.Get(service)
		if serves() || service.Spec.Service == nil {
			t.Error("a restart has removed the metrics-server")
		}
		env.Delete(service)
		if !serves() {
			t.Error("the simulated metrics are not served after the metrics-server is gone")
		}
		env.Get(service)
		if service.Spec.Service != nil {
			t.Errorf("the APIService names a service: %+v", service.Spec)
		}
	}, withMetrics(1), scheme)
}
