package cache

import "github.com/kapok-dev/kapok/client"

// A ResourceEventHandler is a handler of k8s.io/client-go/tools/cache, such as
// ResourceEventHandlerFuncs.
type ResourceEventHandler interface {
	// OnAdd is called for an object that is new in the cache. isInInitialList says that it existed
	// when the handler was added.
	OnAdd(obj any, isInInitialList bool)
	// OnUpdate is called for a change, and for every object at each resync.
	OnUpdate(oldObj, newObj any)
	// OnDelete gets the last known state.
	OnDelete(obj any)
}

// HandlerOf returns an EventHandler that calls a handler of client-go:
//
//	_, err = informer.AddEventHandler(cache.HandlerOf(toolscache.ResourceEventHandlerFuncs{AddFunc: added}))
//
// After a missed deletion, OnDelete gets the last known state, not a DeletedFinalStateUnknown.
func HandlerOf(h ResourceEventHandler) EventHandler { return clientGoHandler{h} }

type clientGoHandler struct{ to ResourceEventHandler }

func (h clientGoHandler) OnAdd(obj client.Object, isInInitialList bool) {
	h.to.OnAdd(obj, isInInitialList)
}
func (h clientGoHandler) OnUpdate(old, obj client.Object)    { h.to.OnUpdate(old, obj) }
func (h clientGoHandler) OnDelete(obj client.Object, _ bool) { h.to.OnDelete(obj) }
