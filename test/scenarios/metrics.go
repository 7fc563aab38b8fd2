package scenarios

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// metricsGroups are the group versions that Metrics serves, and a resource of each.
var metricsGroups = map[schema.GroupVersion]metav1.APIResource{
	{Group: "metrics.k8s.io", Version: "v1beta1"}:          {Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
	{Group: "custom.metrics.k8s.io", Version: "v1beta2"}:   {Name: "pods/requests", Kind: "MetricValueList", Namespaced: true, Verbs: metav1.Verbs{"get"}},
	{Group: "external.metrics.k8s.io", Version: "v1beta1"}: {Name: "queue", Kind: "ExternalMetricValueList", Namespaced: true, Verbs: metav1.Verbs{"get"}},
}

// Metrics serve the metrics APIs of a server with what scripts say. They may be shared by the
// worlds of one server.
type Metrics struct {
	config *rest.Config
	http   *http.Client // of the server
	client client.Client
	server *http.Server
	served sync.WaitGroup
	host   string
	port   int32

	mu         sync.Mutex
	namespaces map[string]figures

	registering sync.Mutex
	registered  bool
}

// figures are the metrics of a script: see the package doc.
type figures struct {
	Usage []struct {
		about
		CPU, Memory string
		Containers  map[string]map[string]string
		Age, Window metav1.Duration
	}
	Each []struct {
		about
		figure
	}
	Objects []struct {
		Of string
		figure
	}
	External []figure
	Fails    map[string]int
}

// about selects the pods of an entry.
type about struct {
	Name  string
	Pods  map[string]string
	Count int // 0 is any
}

// A figure is the value of a metric that is not of metrics.k8s.io.
type figure struct {
	Metric string
	Value  any // a quantity
	Labels map[string]string
}

// ServeMetrics serves metrics on a listener until Close. The server of config reaches it at host
// and port.
func ServeMetrics(config *rest.Config, l net.Listener, host string, port int32) (*Metrics, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	m := &Metrics{config: config, host: host, port: port, namespaces: map[string]figures{}}
	if m.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if m.client, err = client.New(config, client.Options{HTTPClient: m.http}); err != nil {
		return nil, err
	}
	m.server = &http.Server{Handler: m, ErrorLog: log.New(io.Discard, "", 0)}
	secure := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
	m.served.Go(func() { _ = m.server.Serve(tls.NewListener(l, secure)) })
	return m, nil
}

// Close ends the server.
func (m *Metrics) Close() {
	_ = m.server.Close()
	m.served.Wait()
}

// set replaces what the metrics APIs say about a namespace.
func (m *Metrics) set(ctx context.Context, c client.Client, namespace, input string) error {
	if m == nil {
		return errors.New("the world has no metrics")
	}
	var f figures
	if err := yaml.UnmarshalStrict([]byte(input), &f); err != nil {
		return err
	}
	m.mu.Lock()
	m.namespaces[namespace] = f
	m.mu.Unlock()
	return m.register(ctx, c)
}

// register lets the server know the APIs, and returns when it serves them.
func (m *Metrics) register(ctx context.Context, c client.Client) error {
	m.registering.Lock()
	defer m.registering.Unlock()
	if m.registered {
		return nil
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "metrics"}}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: m.host, Ports: []corev1.ServicePort{{Port: m.port}}}
	if err := c.Create(ctx, service); err != nil {
		return err
	}
	for gv := range metricsGroups {
		s := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": gv.Version + "." + gv.Group},
			"spec": map[string]any{
				"group": gv.Group, "version": gv.Version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
				"insecureSkipTLSVerify": true,
				"service":               map[string]any{"namespace": service.Namespace, "name": service.Name, "port": int64(m.port)},
			},
		}}
		if err := c.Create(ctx, s); err != nil {
			return err
		}
	}
	for tries := 0; ; tries++ {
		err := m.isServed(ctx)
		if err == nil {
			break
		}
		if tries == 600 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.registered = true
	return nil
}

// isServed returns an error while the server does not serve the APIs.
func (m *Metrics) isServed(ctx context.Context) error {
	get := func(path string) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.config.Host, "/")+path, nil)
		if err != nil {
			return "", err
		}
		answer, err := m.http.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", path, answer.Status)
		}
		return string(body), err
	}
	groups, err := get("/apis")
	if err != nil {
		return err
	}
	for gv := range metricsGroups {
		if !strings.Contains(groups, `"`+gv.String()+`"`) {
			return fmt.Errorf("%s is not served", gv)
		}
		if _, err := get("/apis/" + gv.String()); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP answers a request of the server.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // apis GROUP VERSION namespaces NAMESPACE ...
	if len(parts) < 3 {
		http.NotFound(w, r)
		return
	}
	gv := schema.GroupVersion{Group: parts[1], Version: parts[2]}
	served, ok := metricsGroups[gv]
	if !ok || len(parts) > 3 && len(parts) < 6 {
		http.NotFound(w, r)
		return
	}
	if len(parts) == 3 {
		send(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{served},
		})
		return
	}
	namespace, rest := parts[4], parts[5:]
	m.mu.Lock()
	f := m.namespaces[namespace]
	m.mu.Unlock()
	if status := f.Fails[gv.Group]; status != 0 {
		http.Error(w, "the metrics are broken", status)
		return
	}
	items := []any{}
	var err error
	switch gv.Group {
	case "metrics.k8s.io":
		items, err = m.usage(r.Context(), f, namespace, r.URL.Query())
	case "external.metrics.k8s.io":
		for _, v := range f.External {
			if v.Metric == rest[0] && v.selected(r.URL.Query().Get("labelSelector")) {
				items = append(items, map[string]any{"metricName": v.Metric, "metricLabels": v.Labels, "timestamp": metav1.Now(), "value": fmt.Sprint(v.Value)})
			}
		}
	default:
		items, err = m.custom(r.Context(), f, namespace, rest, r.URL.Query())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	kind := served.Kind
	if !strings.HasSuffix(kind, "List") {
		kind += "List"
	}
	send(w, map[string]any{"apiVersion": gv.String(), "kind": kind, "metadata": map[string]any{}, "items": items})
}

func send(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// usage returns the PodMetrics of pods.
func (m *Metrics) usage(ctx context.Context, f figures, namespace string, query url.Values) (items []any, err error) {
	pods, err := m.pods(ctx, namespace, query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	about := func(i int) about { return f.Usage[i].about }
	for name, i := range matched(pods, len(f.Usage), about) {
		u := f.Usage[i]
		containers := []any{}
		for name, usage := range u.Containers {
			containers = append(containers, map[string]any{"name": name, "usage": usage})
		}
		if u.Containers == nil {
			usage := map[string]string{}
			if u.CPU != "" {
				usage["cpu"] = u.CPU
			}
			if u.Memory != "" {
				usage["memory"] = u.Memory
			}
			containers = append(containers, map[string]any{"name": "c", "usage": usage})
		}
		items = append(items, map[string]any{
			"metadata": map[string]any{"name": name, "namespace": namespace}, "timestamp": metav1.Time{Time: time.Now().Add(-u.Age.Duration)},
			"window": metav1.Duration{Duration: cmp.Or(u.Window.Duration, 30*time.Second)}, "containers": containers,
		})
	}
	return items, nil
}

// custom returns the values of a custom metric: of pods/*/METRIC, RESOURCE/NAME/METRIC, or
// metrics/METRIC for the namespace.
func (m *Metrics) custom(ctx context.Context, f figures, namespace string, path []string, query url.Values) (items []any, err error) {
	describe := func(v figure, name string) {
		items = append(items, map[string]any{
			"describedObject": map[string]any{"name": name, "namespace": namespace}, "metric": map[string]any{"name": v.Metric},
			"timestamp": metav1.Now(), "value": fmt.Sprint(v.Value),
		})
	}
	metric, selector := path[len(path)-1], query.Get("metricLabelSelector")
	if len(path) == 3 && path[1] == "*" {
		pods, err := m.pods(ctx, namespace, query.Get("labelSelector"))
		if err != nil {
			return nil, err
		}
		each := f.Each[:0:0]
		for _, e := range f.Each {
			if e.Metric == metric && e.selected(selector) {
				each = append(each, e)
			}
		}
		for name, i := range matched(pods, len(each), func(i int) about { return each[i].about }) {
			describe(each[i].figure, name)
		}
		return items, nil
	}
	of := "namespace"
	if len(path) == 3 {
		of = path[0] + "/" + path[1]
	}
	for _, o := range f.Objects {
		if o.Of == of && o.Metric == metric && o.selected(selector) {
			describe(o.figure, path[0])
		}
	}
	return items, nil
}

// selected reports whether a selector matches the labels of a value.
func (v figure) selected(selector string) bool {
	s, err := labels.Parse(selector)
	return err == nil && s.Matches(labels.Set(v.Labels))
}

// matched returns the first of n entries that is about a pod, by the names of pods.
func matched(pods []corev1.Pod, n int, entry func(i int) about) map[string]int {
	all := map[string]int{}
	used := make([]int, n)
	for _, p := range pods {
		for i := range n {
			if a := entry(i); a.Name == "" && labels.SelectorFromSet(a.Pods).Matches(labels.Set(p.Labels)) && (a.Count == 0 || used[i] < a.Count) {
				all[p.Name], used[i] = i, used[i]+1
				break
			}
		}
	}
	for i := range n {
		if a := entry(i); a.Name != "" {
			all[a.Name] = i
		}
	}
	return all
}

// pods returns the pods that a selector matches, the oldest first.
func (m *Metrics) pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	s, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := m.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: s}); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}
