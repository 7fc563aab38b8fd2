package podautoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/manager"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

var (
	resourceMetrics = schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
	externalMetrics = schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"}
)

// customMetrics is the group of custom metrics, and customVersions are the known versions of it.
// What is read here has the same form in both.
const customMetrics = "custom.metrics.k8s.io"

var customVersions = []string{"v1beta2", "v1beta1"}

// metrics reads the metrics APIs. Its methods are safe for concurrent use.
type metrics struct {
	resource, external rest.Interface
	custom             map[string]rest.Interface // by version
	mapper             meta.RESTMapper
	discovery          discovery.DiscoveryInterfaceWithContext
	fresh              time.Duration // how long a discovered version is used

	mu      sync.Mutex
	version string // of custom metrics, discovered at the time of since
	since   time.Time
}

func newMetrics(m manager.Manager, fresh time.Duration) (*metrics, error) {
	read := &metrics{mapper: m.GetRESTMapper(), fresh: fresh, custom: map[string]rest.Interface{}}
	var err error
	if read.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient()); err != nil {
		return nil, err
	}
	if read.resource, err = restClient(m.GetConfig(), m.GetHTTPClient(), resourceMetrics); err != nil {
		return nil, err
	}
	if read.external, err = restClient(m.GetConfig(), m.GetHTTPClient(), externalMetrics); err != nil {
		return nil, err
	}
	for _, v := range customVersions {
		if read.custom[v], err = restClient(m.GetConfig(), m.GetHTTPClient(), schema.GroupVersion{Group: customMetrics, Version: v}); err != nil {
			return nil, err
		}
	}
	return read, nil
}

func restClient(cfg *rest.Config, hc *http.Client, gv schema.GroupVersion) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &gv
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return rest.RESTClientForConfigAndClient(cfg, hc)
}

// A podMetrics is the part of a PodMetrics of metrics.k8s.io that is read.
type podMetrics struct {
	Metadata   struct{ Name string }
	Timestamp  metav1.Time
	Window     metav1.Duration
	Containers []struct {
		Name  string
		Usage corev1.ResourceList
	}
}

// A metricValue is the part of a MetricValue of custom.metrics.k8s.io, or of an ExternalMetricValue
// of external.metrics.k8s.io, that is read.
type metricValue struct {
	DescribedObject struct{ Name string }
	Value           resource.Quantity
}

// list sends a request, and returns the items of the list that is the answer.
func list[T any](ctx context.Context, r *rest.Request) ([]T, error) {
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	body, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var answer struct{ Items []T }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("couldn't decode the list: %w", err)
	}
	return answer.Items, nil
}

// ofPods returns what pods use of a resource: all their containers, or with a name one of each.
// Pods of which that is not known are left out.
func (m *metrics) ofPods(ctx context.Context, of corev1.ResourceName, namespace string, selector labels.Selector, container string) (samples, error) {
	r := m.resource.Get().Namespace(namespace).Resource("pods")
	items, err := list[podMetrics](ctx, selecting(r, "labelSelector", selector))
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	}
	if len(items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	all := make(samples, len(items))
	for _, p := range items {
		if sum, known := p.usage(of, container); known {
			all[p.Metadata.Name] = sample{value: sum, at: p.Timestamp.Time, window: p.Window.Duration}
		}
	}
	return all, nil
}

// usage returns the resource usage of a pod, and whether it is known.
func (p *podMetrics) usage(of corev1.ResourceName, container string) (sum int64, known bool) {
	for _, c := range p.Containers {
		if container != "" && c.Name != container {
			continue
		}
		q, ok := c.Usage[of]
		if !ok {
			return 0, false
		}
		sum, known = add(sum, q.MilliValue()), true
		if container != "" {
			break
		}
	}
	return sum, known
}

// ofEach returns the values of a custom metric of pods.
func (m *metrics) ofEach(ctx context.Context, metric, namespace string, selector, metricSelector labels.Selector) (samples, error) {
	c, err := m.preferred(ctx)
	if err != nil {
		return nil, fromCustom(err)
	}
	mapped, err := m.resourceOf(schema.GroupKind{Kind: "Pod"})
	if err != nil {
		return nil, fromCustom(err)
	}
	r := c.Get().Resource(mapped).Namespace(namespace).Name("*").SubResource(metric)
	items, err := list[metricValue](ctx, selecting(selecting(r, "labelSelector", selector), "metricLabelSelector", metricSelector))
	if err != nil {
		return nil, fromCustom(err)
	}
	if len(items) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	all := make(samples, len(items))
	for _, v := range items {
		all[v.DescribedObject.Name] = sample{value: v.Value.MilliValue()}
	}
	return all, nil
}

// ofObject returns the value of a custom metric of an object in the namespace, or of the namespace.
func (m *metrics) ofObject(ctx context.Context, metric, namespace string, of *autoscalingv2.CrossVersionObjectReference, metricSelector labels.Selector) (int64, error) {
	c, err := m.preferred(ctx)
	if err != nil {
		return 0, fromCustom(err)
	}
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
	r := c.Get().Namespace(namespace)
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		r.Resource("metrics").Name(metric) // whatever the name of the object
	} else {
		mapped, err := m.resourceOf(kind)
		if err != nil {
			return 0, fromCustom(err)
		}
		r.Resource(mapped).Name(of.Name).SubResource(metric)
	}
	items, err := list[metricValue](ctx, selecting(r, "metricLabelSelector", metricSelector))
	if err != nil {
		return 0, fromCustom(err)
	}
	if len(items) != 1 {
		return 0, fromCustom(fmt.Errorf("the custom metrics API server returned %v results when we asked for exactly one", len(items)))
	}
	return items[0].Value.MilliValue(), nil
}

// ofOutside returns the values of a metric of something outside of the cluster.
func (m *metrics) ofOutside(ctx context.Context, metric, namespace string, selector labels.Selector) (values []int64, err error) {
	r := m.external.Get().Namespace(namespace).Resource(metric)
	items, err := list[metricValue](ctx, selecting(r, "labelSelector", selector))
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	}
	if len(items) == 0 {
		return nil, errors.New("no metrics returned from external metrics API")
	}
	for _, v := range items {
		values = append(values, v.Value.MilliValue())
	}
	return values, nil
}

func fromCustom(err error) error {
	return fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
}

// selecting adds a selector to a request, unless it selects everything.
func selecting(r *rest.Request, name string, s labels.Selector) *rest.Request {
	if text := s.String(); text != "" {
		r.Param(name, text)
	}
	return r
}

// resourceOf returns the resource of a kind, as it is written in paths of custom metrics.
func (m *metrics) resourceOf(kind schema.GroupKind) (string, error) {
	mapping, err := m.mapper.RESTMapping(kind)
	if err != nil {
		return "", fmt.Errorf("unable to map kind %s to resource: %w", kind, err)
	}
	return mapping.Resource.GroupResource().String(), nil
}

// preferred returns the client of the version of custom metrics that the server prefers, or else of
// one that is known here.
func (m *metrics) preferred(ctx context.Context) (rest.Interface, error) {
	m.mu.Lock()
	version, since := m.version, m.since
	m.mu.Unlock()
	if version != "" && time.Since(since) < m.fresh {
		return m.custom[version], nil
	}
	groups, err := m.discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == customMetrics })
	if i < 0 {
		return nil, fmt.Errorf("no custom metrics API (%s) registered", customMetrics)
	}
	for _, v := range slices.Concat([]metav1.GroupVersionForDiscovery{groups.Groups[i].PreferredVersion}, groups.Groups[i].Versions) {
		if c := m.custom[v.Version]; c != nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.version, m.since = v.Version, time.Now()
			return c, nil
		}
	}
	return nil, errors.New("no known available metric versions found")
}
