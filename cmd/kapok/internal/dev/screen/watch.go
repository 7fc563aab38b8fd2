package screen

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// A watcher keeps a table current by a watch for each kind: those of the definitions on the server,
// those of the samples, and the built-in kinds that operators usually create.
type watcher struct {
	config  *rest.Config
	table   *table
	changed func()            // is called after each change of the table
	samples chan []dev.Sample // the newest list, if it is not handled yet
	watches map[schema.GroupKind]*kindWatch
}

// A kindWatch is the watch of one kind.
type kindWatch struct {
	resource schema.GroupVersionResource
	stop     context.CancelFunc
	ended    chan struct{}
}

func newWatcher(config *rest.Config, t *table, changed func()) *watcher {
	return &watcher{config: config, table: t, changed: changed, samples: make(chan []dev.Sample, 1), watches: map[schema.GroupKind]*kindWatch{}}
}

// usual are the built-in kinds whose objects are shown if an object of the project owns them.
var usual = []struct{ group, version, resource, kind string }{
	{"", "v1", "configmaps", "ConfigMap"},
	{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"},
	{"", "v1", "pods", "Pod"},
	{"", "v1", "secrets", "Secret"},
	{"", "v1", "serviceaccounts", "ServiceAccount"},
	{"", "v1", "services", "Service"},
	{"apps", "v1", "daemonsets", "DaemonSet"},
	{"apps", "v1", "deployments", "Deployment"},
	{"apps", "v1", "replicasets", "ReplicaSet"},
	{"apps", "v1", "statefulsets", "StatefulSet"},
	{"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"},
	{"batch", "v1", "cronjobs", "CronJob"},
	{"batch", "v1", "jobs", "Job"},
	{"networking.k8s.io", "v1", "ingresses", "Ingress"},
	{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"},
	{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"},
	{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"},
	{"rbac.authorization.k8s.io", "v1", "roles", "Role"},
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// run follows the kinds until ctx is done. Its goroutine alone starts and stops watches.
func (w *watcher) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	events := make(chan client.Event[*unstructured.Unstructured])
	wg.Go(func() {
		w.repeat(ctx, definitions, func() {}, func(e client.Event[*unstructured.Unstructured]) {
			select {
			case events <- e:
			case <-ctx.Done():
			}
		})
	})
	for _, k := range usual {
		w.follow(ctx, &wg, schema.GroupKind{Group: k.group, Kind: k.kind}, schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.resource})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			kind, resource, served := served(e.Object)
			if e.Type == watch.Deleted || !served {
				w.leave(kind)
				break
			}
			w.table.setOwn(kind, slices.ContainsFunc(e.Object.GetManagedFields(), isOurs))
			w.follow(ctx, &wg, kind, resource)
		case samples := <-w.samples:
			for _, s := range samples {
				w.followSample(ctx, &wg, s.Kind)
			}
		}
		w.changed()
	}
}

// setSamples makes run follow the kinds of samples. One goroutine calls it.
func (w *watcher) setSamples(samples []dev.Sample) {
	select {
	case <-w.samples:
	default:
	}
	w.samples <- samples
}

// isOurs reports whether package dev has applied an object.
func isOurs(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == dev.FieldManager }

// served returns the kind of a definition and the resource of a version, and whether the server
// serves it.
func served(definition *unstructured.Unstructured) (kind schema.GroupKind, resource schema.GroupVersionResource, ok bool) {
	spec, _ := definition.Object["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	kind.Group, _ = spec["group"].(string)
	kind.Kind, _ = names["kind"].(string)
	resource.Group = kind.Group
	resource.Resource, _ = names["plural"].(string)
	versions, _ := spec["versions"].([]any)
	for _, version := range versions {
		v, _ := version.(map[string]any)
		if v["served"] == true && (resource.Version == "" || v["storage"] == true) {
			resource.Version, _ = v["name"].(string)
		}
	}
	status, _ := definition.Object["status"].(map[string]any)
	for _, c := range conditionsOf(status) {
		ok = ok || c.Type == "Established" && c.Status == metav1.ConditionTrue
	}
	return kind, resource, ok && resource.Version != ""
}

// followSample follows a kind that is neither a usual one nor one of a definition.
func (w *watcher) followSample(ctx context.Context, wg *sync.WaitGroup, kind schema.GroupVersionKind) {
	if w.watches[kind.GroupKind()] != nil {
		return
	}
	c, err := client.New(w.config, client.Options{}) // a new one reads discovery again
	if err != nil {
		return
	}
	if mapping, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil {
		w.follow(ctx, wg, kind.GroupKind(), mapping.Resource)
	}
}

// follow starts the watch of a kind, in place of one of another resource.
func (w *watcher) follow(ctx context.Context, wg *sync.WaitGroup, kind schema.GroupKind, resource schema.GroupVersionResource) {
	if running := w.watches[kind]; running != nil && running.resource == resource {
		return
	}
	w.leave(kind)
	ctx, stop := context.WithCancel(ctx)
	k := &kindWatch{resource: resource, stop: stop, ended: make(chan struct{})}
	w.watches[kind] = k
	fresh := func() {
		w.table.drop(kind)
		w.changed()
	}
	wg.Go(func() {
		defer close(k.ended)
		defer stop()
		w.repeat(ctx, resource, fresh, func(e client.Event[*unstructured.Unstructured]) {
			if e.Type == watch.Deleted {
				w.table.remove(kind, e.Object.GetUID())
			} else {
				w.table.put(kind, e.Object)
			}
			w.changed()
		})
	})
}

// leave ends the watch of a kind, and removes its objects.
func (w *watcher) leave(kind schema.GroupKind) {
	if k := w.watches[kind]; k != nil {
		k.stop()
		<-k.ended
		delete(w.watches, kind)
	}
	w.table.drop(kind)
}

// again is the delay before a watch that has failed is started again.
const again = time.Second

// repeat calls handle for the objects of a resource and their changes until ctx is done. Before it
// starts again after an error, as when the kind has vanished, it calls fresh.
func (w *watcher) repeat(ctx context.Context, resource schema.GroupVersionResource, fresh func(), handle func(client.Event[*unstructured.Unstructured])) {
	for {
		// A new client: another definition may have the same name and another scope.
		c, err := client.NewWithWatch(w.config, client.Options{})
		if err == nil {
			for event, err := range client.Dynamic(c, resource).Watch(ctx) {
				if err == nil {
					handle(event)
				}
			}
		}
		if ctx.Err() == nil {
			fresh()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}
