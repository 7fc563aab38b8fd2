// Package service finds the Services that select a pod, for the controllers of their endpoints.
//
// It starts no goroutine and has no locks.
package service

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/controllers/internal/selected"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	endpoints "k8s.io/endpointslice/util"
)

// Index adds the indices that Pods and ByPod need. Controllers that share a manager may each call
// it.
func Index(m manager.Manager) error {
	if err := selected.IndexLabels(m, &corev1.Pod{}); err != nil {
		return err
	}
	return selected.IndexSelectors(m, &corev1.Service{}, func(o client.Object) labels.Selector {
		if s := o.(*corev1.Service); s.Spec.Selector != nil {
			return selectorOf(s)
		}
		return nil
	})
}

func selectorOf(s *corev1.Service) labels.Selector {
	return labels.Set(s.Spec.Selector).AsSelectorPreValidated()
}

// Pods returns the pods that a Service selects. They belong to the cache.
func Pods(ctx context.Context, r client.Reader, s *corev1.Service) (pods []*corev1.Pod, err error) {
	var list corev1.PodList
	if err := selected.List(ctx, r, &list, s.Namespace, selectorOf(s)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// ByPod returns a handler that adds requests for the Services whose endpoints an event of a pod may
// change: those that select it, and if its labels change, those that selected it. An event that
// changes nothing that endpoints show adds none.
func ByPod(r client.Reader) handler.EventHandler {
	add := func(ctx context.Context, q handler.Queue, key *endpoints.PodProjectionKey) {
		if key == nil {
			return
		}
		now := selecting(ctx, r, key.Namespace, key.Labels)
		before := now
		if key.OldLabels != nil {
			before = selecting(ctx, r, key.Namespace, key.OldLabels)
		}
		for request := range now {
			if key.OldLabels == nil || key.PodChanged || !before[request] {
				q.Add(request)
			}
		}
		for request := range before {
			if key.PodChanged || !now[request] {
				q.Add(request)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q handler.Queue) {
			add(ctx, q, endpoints.GetPodUpdateProjectionKey(nil, e.Object))
		},
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q handler.Queue) {
			key := endpoints.GetPodUpdateProjectionKey(e.ObjectOld, e.ObjectNew)
			if pod.Ended(e.ObjectOld.(*corev1.Pod)) != pod.Ended(e.ObjectNew.(*corev1.Pod)) { // which Kubernetes does not notice
				if key == nil {
					key = endpoints.GetPodUpdateProjectionKey(nil, e.ObjectNew)
				}
				key.PodChanged = true
			}
			add(ctx, q, key)
		},
		DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q handler.Queue) {
			add(ctx, q, endpoints.GetPodUpdateProjectionKey(e.Object, nil))
		},
	}
}

// selecting returns the Services of a namespace that select a pod with these labels.
func selecting(ctx context.Context, r client.Reader, namespace string, of labels.Set) map[handler.Request]bool {
	found := map[handler.Request]bool{}
	// An error means that the cache has ended.
	_ = selected.Each(ctx, r, func() *corev1.ServiceList { return &corev1.ServiceList{} }, namespace, of, func(list *corev1.ServiceList) {
		for i := range list.Items {
			if s := &list.Items[i]; selectorOf(s).Matches(of) {
				found[handler.RequestFor(s)] = true
			}
		}
	})
	return found
}
