// Package metrics serves metrics.k8s.io for nodes that are not kubelets, by a handler in the
// process.
package metrics

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Version is the group version that a Handler serves.
var Version = metricsv1beta1.SchemeGroupVersion

// Window is the window of all metrics: that of metrics-server.
const Window = 15 * time.Second

// A Handler serves metrics.k8s.io/v1beta1 for nodes and their pods, as metrics-server does for
// kubelets: kubectl top and HorizontalPodAutoscalers read it. It is a handler for
// kapok.Options.Aggregation.Handlers, and its zero value answers once it is in the Options of nodes
// that run. It starts no goroutine.
//
// A container that runs has metrics. A node uses what its pods use.
type Handler struct {
	mu      sync.Mutex
	sources []*Source
}

// A Source has what some nodes use.
type Source struct {
	// Name is that of the source. Another one with the name replaces it.
	Name string
	// Reader reads nodes and pods. It has an index of pods by ByNode.
	Reader client.Reader
	// Runs reports whether a node is one of the source.
	Runs func(n *corev1.Node) bool
	// Usage returns what the containers of a pod use that run. The pod must not be changed.
	Usage func(p *corev1.Pod, now time.Time) []Container
}

// ByNode is the index of pods by their nodes.
const ByNode = "spec.nodeName"

// A Container is what a container uses.
type Container struct {
	Name  string
	Usage corev1.ResourceList
}

// Add adds a source, and to a manager what creates the role to read metrics.
func (h *Handler) Add(m manager.Manager, s Source) error {
	h.mu.Lock()
	h.sources = append(slices.DeleteFunc(h.sources, func(other *Source) bool { return other.Name == s.Name }), &s)
	h.mu.Unlock()
	return m.Add(&roleCreator{client: m.GetClient()})
}

// source returns the sources as one; nil if there is none.
func (h *Handler) source() *usageSource {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sources) == 0 {
		return nil
	}
	return &usageSource{reader: h.sources[0].Reader, all: slices.Clone(h.sources)}
}

// A usageSource has what usage is computed from.
type usageSource struct {
	reader client.Reader
	all    []*Source
}

// ServeHTTP implements http.Handler. The paths are those of an API server.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root := "/apis/" + Version.String()
	if r.URL.Path == root {
		writeJSON(w, http.StatusOK, metricsResources())
		return
	}
	below, ok := strings.CutPrefix(r.URL.Path, root+"/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	a, err := h.answer(r, strings.Split(below, "/"))
	if err != nil {
		writeError(w, err)
		return
	}
	a.write(w, r)
}

// metricsResources is the discovery document.
func metricsResources() *metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list"}
	return &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: Version.String(),
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
		},
	}
}

// answer returns what a request reads: nodes, nodes/NAME, pods, namespaces/NAMESPACE/pods or
// namespaces/NAMESPACE/pods/NAME.
func (h *Handler) answer(r *http.Request, path []string) (*metricsAnswer, error) {
	namespace := ""
	if len(path) > 2 && path[0] == "namespaces" {
		namespace, path = path[1], path[2:]
	}
	resource, name := path[0], ""
	if len(path) == 2 {
		name = path[1]
	}
	if len(path) > 2 || resource != "nodes" && resource != "pods" || resource == "nodes" && namespace != "" || resource == "pods" && name != "" && namespace == "" {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, true)
	}
	of := Version.WithResource(resource).GroupResource()
	if r.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(of, strings.ToLower(r.Method))
	}
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		return nil, apierrors.NewMethodNotSupported(of, "watch")
	}
	source := h.source()
	if source == nil {
		return nil, apierrors.NewServiceUnavailable("the nodes do not run yet")
	}
	s, err := selectionOf(r)
	if err != nil {
		return nil, err
	}
	if resource == "nodes" {
		return source.nodes(r.Context(), name, s)
	}
	return source.pods(r.Context(), namespace, name, s)
}

// A selection has the selectors of a list.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

func selectionOf(r *http.Request) (s selection, err error) {
	q := r.URL.Query()
	if s.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return s, apierrors.NewBadRequest(fmt.Sprintf("unable to parse requirement: %v", err))
	}
	if s.fields, err = fields.ParseSelector(q.Get("fieldSelector")); err == nil {
		s.fields, err = s.fields.Transform(runtime.DefaultMetaV1FieldSelectorConversion)
	}
	if err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	return s, nil
}

func (s *selection) has(o client.Object) bool {
	return s.fields.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}) && s.labels.Matches(labels.Set(o.GetLabels()))
}

// shared are the options of reads from the cache whose results are not changed.
var shared = []client.ListOption{client.UnsafeDisableDeepCopy}

// A node is one that has metrics.
type node struct {
	*corev1.Node
	source *Source
}

// nodesByName returns the nodes that have metrics.
func (u *usageSource) nodesByName(ctx context.Context) (map[string]node, error) {
	var list corev1.NodeList
	if err := u.reader.List(ctx, &list, shared...); err != nil {
		return nil, err
	}
	nodes := map[string]node{}
	for i := range list.Items {
		n := &list.Items[i]
		if j := slices.IndexFunc(u.all, func(s *Source) bool { return s.Runs(n) }); j >= 0 {
			nodes[n.Name] = node{n, u.all[j]}
		}
	}
	return nodes, nil
}

// pods returns the metrics of the pods in a namespace, or of one of them.
func (u *usageSource) pods(ctx context.Context, namespace, name string, s selection) (*metricsAnswer, error) {
	nodes, err := u.nodesByName(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	measure := func(p *corev1.Pod) (metricsv1beta1.PodMetrics, bool) {
		m := metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, CreationTimestamp: metav1.NewTime(now)},
			Timestamp:  metav1.NewTime(now), Window: metav1.Duration{Duration: Window},
		}
		if n, ok := nodes[p.Spec.NodeName]; ok {
			for _, c := range n.source.Usage(p, now) {
				m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: c.Usage})
			}
		}
		return m, len(m.Containers) > 0
	}
	if name != "" {
		p := &corev1.Pod{}
		if err := u.reader.Get(ctx, client.Key(namespace, name), p, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
			return nil, apierrors.NewNotFound(corev1.Resource("pods"), namespace+"/"+name)
		} else if err != nil {
			return nil, err
		}
		m, ok := measure(p)
		if !ok {
			return nil, apierrors.NewNotFound(Version.WithResource("podmetrics").GroupResource(), namespace+"/"+name)
		}
		m.TypeMeta = typeOf("PodMetrics")
		return &metricsAnswer{object: &m, rows: []row{podRow(&m)}}, nil
	}
	var list corev1.PodList
	if err := u.reader.List(ctx, &list, slices.Concat(shared, []client.ListOption{client.InNamespace(namespace)})...); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	all := &metricsv1beta1.PodMetricsList{TypeMeta: typeOf("PodMetricsList"), Items: []metricsv1beta1.PodMetrics{}}
	for i := range list.Items {
		if !s.has(&list.Items[i]) {
			continue
		}
		if m, ok := measure(&list.Items[i]); ok {
			all.Items = append(all.Items, m)
		}
	}
	a := &metricsAnswer{object: all}
	for i := range all.Items {
		a.rows = append(a.rows, podRow(&all.Items[i]))
	}
	return a, nil
}

// nodes returns the metrics of all nodes, or of one.
func (u *usageSource) nodes(ctx context.Context, name string, s selection) (*metricsAnswer, error) {
	nodes, err := u.nodesByName(ctx)
	if err != nil {
		return nil, err
	}
	options := shared
	if name != "" {
		n, ok := nodes[name]
		if !ok {
			return nil, apierrors.NewNotFound(Version.WithResource("nodemetrics").GroupResource(), name)
		}
		nodes = map[string]node{name: n}
		options = append(slices.Clone(shared), client.MatchingFields{ByNode: name})
	}
	var pods corev1.PodList
	if err := u.reader.List(ctx, &pods, options...); err != nil {
		return nil, err
	}
	now := time.Now()
	used := map[string]corev1.ResourceList{}
	for name := range nodes {
		used[name] = corev1.ResourceList{}
		addUsage(used[name], corev1.ResourceList{corev1.ResourceCPU: {}, corev1.ResourceMemory: {}})
	}
	for i := range pods.Items {
		on := pods.Items[i].Spec.NodeName
		if sum := used[on]; sum != nil {
			for _, c := range nodes[on].source.Usage(&pods.Items[i], now) {
				addUsage(sum, c.Usage)
			}
		}
	}
	all := &metricsv1beta1.NodeMetricsList{TypeMeta: typeOf("NodeMetricsList"), Items: []metricsv1beta1.NodeMetrics{}}
	for _, n := range nodes {
		if name != "" || s.has(n.Node) {
			all.Items = append(all.Items, metricsv1beta1.NodeMetrics{
				ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: metav1.NewTime(now)},
				Timestamp:  metav1.NewTime(now), Window: metav1.Duration{Duration: Window}, Usage: used[n.Name],
			})
		}
	}
	slices.SortFunc(all.Items, func(a, b metricsv1beta1.NodeMetrics) int { return strings.Compare(a.Name, b.Name) })
	a := &metricsAnswer{object: all}
	for i := range all.Items {
		n := &all.Items[i]
		a.rows = append(a.rows, row{name: n.Name, usage: n.Usage, object: n})
	}
	if name != "" {
		n := &all.Items[0]
		n.TypeMeta = typeOf("NodeMetrics")
		a.object = n
	}
	return a, nil
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: Version.String(), Kind: kind}
}

// podRow returns the row of a pod, with the sum of its containers.
func podRow(m *metricsv1beta1.PodMetrics) row {
	sum := corev1.ResourceList{}
	for _, c := range m.Containers {
		addUsage(sum, c.Usage)
	}
	return row{name: m.Name, usage: sum, object: m}
}

// addUsage adds quantities to a sum.
func addUsage(sum, used corev1.ResourceList) {
	for name, q := range used {
		total := sum[name].DeepCopy()
		total.Add(q)
		sum[name] = total
	}
}

// createRetry is the time between two attempts to create the role.
const createRetry = time.Second

// A roleCreator creates the cluster role by which users may read metrics, as metrics-server's
// manifests do: it is a part of the roles view, edit and admin. It is a Runnable of the leader.
type roleCreator struct{ client client.Client }

// Start implements manager.Runnable.
func (c *roleCreator) Start(ctx context.Context) error {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "system:aggregated-metrics-reader", Labels: map[string]string{
			"rbac.authorization.k8s.io/aggregate-to-admin": "true",
			"rbac.authorization.k8s.io/aggregate-to-edit":  "true",
			"rbac.authorization.k8s.io/aggregate-to-view":  "true",
		}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{Version.Group}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}}},
	}
	for {
		err := client.IgnoreAlreadyExists(c.client.Create(ctx, role.DeepCopy()))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(createRetry):
		}
	}
}
