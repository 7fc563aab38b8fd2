package job

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// release removes the finalizer from a pod. With unchanged it returns a "conflict" error if the pod
// has changed since it was read.
func release(ctx context.Context, c client.Client, p *corev1.Pod, unchanged bool) error {
	metadata := map[string]any{
		"uid":                                 p.UID, // a later pod of this name is not counted yet
		"$deleteFromPrimitiveList/finalizers": []string{batchv1.JobTrackingFinalizer},
	}
	if unchanged {
		metadata["resourceVersion"] = p.ResourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return c.Patch(ctx, p.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
}

// each calls do for all pods at once, waits, and returns the first error.
func each(pods []*corev1.Pod, do func(*corev1.Pod) error) error {
	errs := make(chan error, len(pods))
	var all sync.WaitGroup
	for _, one := range pods {
		all.Go(func() {
			if err := do(one); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// How remove treats the finalizer of a pod: with releaseFirst the pod is not counted.
const (
	keepFinalizer = false
	releaseFirst  = true
)

// remove deletes active pods, and updates the numbers of the pass.
func (p *pass) remove(ctx context.Context, pods []*corev1.Pod, releaseFirst bool) error {
	var removed, ready atomic.Int32
	err := each(pods, func(one *corev1.Pod) error {
		if err := p.removeOne(ctx, one, releaseFirst); err != nil {
			return err
		}
		removed.Add(1)
		if pod.Ready(one) {
			ready.Add(1)
		}
		return nil
	})
	p.active -= removed.Load()
	p.ready -= ready.Load()
	p.terminating += removed.Load()
	return err
}

func (p *pass) removeOne(ctx context.Context, one *corev1.Pod, releaseFirst bool) error {
	if releaseFirst && tracked(one) {
		// It may have ended just now, and be counted then.
		if err := release(ctx, p.client, one, true); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name}}
	switch err := p.client.Delete(ctx, gone, client.Preconditions{UID: &one.UID}); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		p.events.Eventf(p.job, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return fmt.Errorf("unable to delete pods: %w", err)
	}
	p.events.Eventf(p.job, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", one.Name)
	return nil
}

// releaseAll removes the finalizer from pods, and their uids from tracked. A pod that no longer
// exists is left to the next pass, for which the cache has seen its deletion: as long as the cache
// has the pod, it would be counted again.
func (p *pass) releaseAll(ctx context.Context, pods []*corev1.Pod, tracked map[types.UID]bool) error {
	var mu sync.Mutex
	return each(pods, func(one *corev1.Pod) error {
		if err := release(ctx, p.client, one, false); err != nil {
			return client.IgnoreNotFound(err)
		}
		mu.Lock()
		defer mu.Unlock()
		delete(tracked, one.UID)
		return nil
	})
}
