package server

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/transport"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// connection is the transport of clients in this process. Their caches can read the state through
// it.
type connection struct {
	*transport.InProcess
	store   *resource.Store
	stopped chan struct{}
}

// Config returns a configuration for clients.
func (c *connection) Config() *rest.Config {
	cfg := c.InProcess.Config()
	cfg.Transport = c
	return cfg
}

// Refuse rejects new requests, and ends watches of the state.
func (c *connection) Refuse() {
	c.InProcess.Refuse()
	close(c.stopped)
}

// Stopped implements local.State.
func (c *connection) Stopped() <-chan struct{} { return c.stopped }

// Watch implements local.State.
func (c *connection) Watch(ctx context.Context, o local.WatchOptions) (local.Watch, error) {
	select {
	case <-c.stopped:
		return nil, transport.Refused()
	default:
	}
	d := c.store.Registry().Load().Resource(o.Resource.GroupResource())
	if d == nil {
		return nil, fmt.Errorf("%s: %w", o.Resource.GroupResource(), local.ErrElsewhere)
	}
	v := d.Version(o.Resource.GroupVersion())
	if v == nil {
		return nil, fmt.Errorf("%s: %w", o.Resource, local.ErrElsewhere)
	}
	w := &localWatch{store: c.store, definition: d, version: v}
	options := resource.WatchOptions{Labels: o.Labels, Fields: o.Fields, ResourceVersion: o.ResourceVersion}
	if o.ResourceVersion == "" {
		options.SendInitialEvents, options.Bookmarks = new(true), true
	}
	request := &resource.Request{Definition: d, Version: v, Namespace: o.Namespace, Warn: func(string) {}}
	var err error
	if w.watch, err = c.store.Watch(ctx, request, options); err != nil {
		return nil, err
	}
	return w, nil
}

// localWatch implements local.Watch.
type localWatch struct {
	store      *resource.Store
	definition *resource.Definition
	version    *resource.Version
	watch      *resource.Watch
	at         object.Revision
}

// Next implements local.Watch.
func (w *localWatch) Next(ctx context.Context) ([]local.Event, <-chan struct{}, error) {
	changes, wait, err := w.watch.Next(ctx)
	if err != nil {
		return nil, nil, err
	}
	// With another definition, what it returned may be in a form that this one does not know.
	if w.store.Registry().Load().Replaced(w.definition) {
		return nil, nil, local.ErrRetired
	}
	events := make([]local.Event, len(changes))
	for i := range events {
		if events[i], err = w.event(&changes[i]); err != nil {
			return nil, nil, err
		}
	}
	w.at = w.watch.Revision()
	return events, wait, nil
}

func (w *localWatch) event(e *resource.WatchEvent) (local.Event, error) {
	if e.Type == watch.Bookmark {
		return local.Event{Type: e.Type}, nil
	}
	form, err := resource.Form(w.definition, w.version, e.Object, object.JSON)
	if err != nil {
		return local.Event{}, err
	}
	o := e.Object
	return local.Event{Type: e.Type, Object: local.Object{
		Namespace: o.Key.Namespace, Name: o.Key.Name, UID: string(o.Meta.UID), ResourceVersion: e.Revision.String(),
		Deleting: o.Meta.Deleting(), JSON: form.Bytes,
	}}, nil
}

// ResourceVersion implements local.Watch.
func (w *localWatch) ResourceVersion() string { return w.at.String() }

// Retired implements local.Watch.
func (w *localWatch) Retired() <-chan struct{} { return w.definition.Retired() }
