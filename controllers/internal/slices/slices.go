// Package slices finds the EndpointSlices of a Service that a controller manages, and maps their
// events to requests for the Service.
//
// It starts no goroutine and has no locks.
package slices

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	endpoints "k8s.io/endpointslice/util"
)

const (
	byService = "kapok.dev/service"
	// pause is the time until a change of a slice by another client is undone.
	pause = time.Second
)

// Index indexes EndpointSlices by the Service that their label names, for Of. Controllers that
// share a manager may each call it.
func Index(m manager.Manager) error {
	err := m.GetFieldIndexer().IndexField(context.Background(), &discoveryv1.EndpointSlice{}, byService, func(o client.Object) []string {
		return []string{o.GetLabels()[discoveryv1.LabelServiceName]}
	})
	if errors.Is(err, cache.ErrIndexExists) {
		return nil
	}
	return err
}

// Of returns the slices of a Service that a controller manages, without those that are being
// deleted. They share memory with the cache, except for their lists of ports, which
// k8s.io/endpointslice sorts. They have no TypeMeta, as it expects of objects.
func Of(ctx context.Context, r client.Reader, service types.NamespacedName, managedBy string) (all []*discoveryv1.EndpointSlice, err error) {
	var list discoveryv1.EndpointSliceList
	if err := r.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{byService: service.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		s := list.Items[i]
		if s.Labels[discoveryv1.LabelManagedBy] == managedBy && s.DeletionTimestamp == nil {
			s.TypeMeta, s.Ports = metav1.TypeMeta{}, slices.Clone(s.Ports)
			all = append(all, &s)
		}
	}
	return all, nil
}

// Handler returns a handler that adds a request for the Service of a slice which another client
// changes or deletes. tracker knows the slices as the controller wrote them.
func Handler(managedBy string, tracker *endpoints.EndpointSliceTracker) handler.EventHandler {
	is := func(s *discoveryv1.EndpointSlice) bool { return s.Labels[discoveryv1.LabelManagedBy] == managedBy }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) {
			if s := e.Object.(*discoveryv1.EndpointSlice); is(s) && tracker.ShouldSync(s) {
				add(q, s)
			}
		},
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			before, after := e.ObjectOld.(*discoveryv1.EndpointSlice), e.ObjectNew.(*discoveryv1.EndpointSlice)
			switch {
			case before.Labels[discoveryv1.LabelServiceName] != after.Labels[discoveryv1.LabelServiceName]:
				add(q, after)
				add(q, before)
			case is(before) != is(after) || is(after) && tracker.ShouldSync(after):
				add(q, after)
			}
		},
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) {
			if s := e.Object.(*discoveryv1.EndpointSlice); is(s) && tracker.Has(s) && !tracker.HandleDeletion(s) {
				add(q, s)
			}
		},
	}
}

func add(q handler.Queue, s *discoveryv1.EndpointSlice) {
	if service := s.Labels[discoveryv1.LabelServiceName]; service != "" {
		q.AddAfter(handler.Request{NamespacedName: types.NamespacedName{Namespace: s.Namespace, Name: service}}, pause)
	}
}
