// Package local is the interface between a cache and a server in the same process: the cache reads
// the server's state, without a connection and without copies of the objects.
//
//	server, err := kapok.Start(ctx, kapok.Options{})
//	...
//	cfg := server.Config()
//	c, err := cache.New(cfg, cache.Options{State: local.Of(cfg)})
package local

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

var (
	// ErrElsewhere is wrapped by the error of [State.Watch] for a resource that the server does not
	// store itself: an extension server may have it.
	ErrElsewhere = errors.New("the resource is not in this process")
	// ErrRetired is the error of a [Watch] of a resource that the server stores in another way now.
	// Another watch can go on from the resourceVersion that this one has reached.
	ErrRetired = errors.New("the resource has another definition")
)

// A State holds the objects of a server. It is read with the permissions of an administrator, and
// reads are neither audited nor limited. A State is safe for concurrent use.
type State interface {
	// Watch follows some objects of a resource. The error is a Kubernetes API error, as that of a
	// request, or wraps ErrElsewhere; it is that of a refused connection after the server has
	// stopped.
	Watch(ctx context.Context, o WatchOptions) (Watch, error)
	// Stopped is closed when the server stops.
	Stopped() <-chan struct{}
}

// WatchOptions select objects.
type WatchOptions struct {
	Resource  schema.GroupVersionResource
	Namespace string          // default: all namespaces
	Labels    labels.Selector // default: all objects
	Fields    fields.Selector // default: all objects
	// ResourceVersion is that after which the events begin. Default: they begin with the existing
	// objects as ADDED, after which comes a BOOKMARK.
	ResourceVersion string
}

// A Watch is a position in the history of some objects. It is not safe for concurrent use. It holds
// nothing that has to be released.
type Watch interface {
	// Next returns the next events. If there are none, which means that the caller has seen every
	// write that was committed before the call, it returns a channel that is closed when there may
	// be some. After an error the watch has ended: 410 Expired, or one after which another watch
	// can go on from ResourceVersion.
	Next(ctx context.Context) ([]Event, <-chan struct{}, error)
	// ResourceVersion is that up to which Next has returned all events.
	ResourceVersion() string
	// Retired is closed when the server stores the resource in another way or no longer. Next may
	// still return events then; if it returns none, the watch has ended.
	Retired() <-chan struct{}
}

// An Event is a change of an object: ADDED, MODIFIED or DELETED; or a BOOKMARK without an object.
type Event struct {
	Type   watch.EventType
	Object Object
}

// An Object is an object in the version of the watch. It shares memory with the server, and must
// not be changed.
type Object struct {
	Namespace, Name, UID string
	ResourceVersion      string
	Deleting             bool   // has a deletionTimestamp
	JSON                 []byte // without the resourceVersion
}

// Of returns the State behind the configuration of a server in this process, or nil if it is that
// of another server or user, or has a transport of its own.
func Of(cfg *rest.Config) State {
	state, ok := cfg.Transport.(State)
	if !ok || cfg.WrapTransport != nil || cfg.Impersonate.UserName != "" || cfg.BearerToken != "" || cfg.BearerTokenFile != "" ||
		cfg.Username != "" {
		return nil
	}
	return state
}
