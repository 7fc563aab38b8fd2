// Package cluster has clients, a cache and events for one cluster, for programs that work on
// several.
//
//	other, err := cluster.New(cfg)
//	err = mgr.Add(other)
//	err = ctrl.NewControllerManagedBy(mgr).Named("mirror").
//		WatchesRawSource(controller.Kind(other.GetCache(), &corev1.Secret{}, &handler.EnqueueRequestForObject{})).Complete(r)
package cluster

import (
	"context"
	"net/http"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// A Cluster is the part of a manager.Manager that is about one API server; every Manager is one.
// Start it, or add it to a Manager, which starts it with its caches, before its controllers.
type Cluster interface {
	manager.Clients
	manager.Kinds
	manager.Recorders

	// Start runs the cache and writes events until ctx ends. It can be called once.
	Start(ctx context.Context) error
}

// Options are the settings of a Cluster. They have the meaning of those of manager.Options.
type Options struct {
	Scheme           *runtime.Scheme
	MapperProvider   func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	Logger           logr.Logger
	Cache            cache.Options
	NewCache         cache.NewCacheFunc
	Client           client.Options
	NewClient        client.NewClientFunc
	EventBroadcaster record.EventBroadcaster
}

// An Option changes Options.
type Option func(*Options)

// New makes a Cluster. It sends nothing, and starts no goroutine, before Start.
func New(cfg *rest.Config, opts ...Option) (Cluster, error) {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	m, err := manager.New(cfg, manager.Options{
		Scheme: o.Scheme, MapperProvider: o.MapperProvider, Logger: o.Logger, Cache: o.Cache, NewCache: o.NewCache,
		Client: o.Client, NewClient: o.NewClient, EventBroadcaster: o.EventBroadcaster,
	})
	if err != nil {
		return nil, err
	}
	return cluster{m}, nil
}

// cluster hides the other methods of a manager.
type cluster struct{ Cluster }
