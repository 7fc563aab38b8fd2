package process

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"
	"github.com/kapok-dev/kapok/node/internal/recorder"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	requests "k8s.io/component-helpers/resource"
)

const (
	// evictInterval is the time between two looks at the files of pods, that of a kubelet.
	evictInterval = 10 * time.Second
	// evictGrace is the grace period of a pod that is evicted, that of a kubelet.
	evictGrace    = time.Second
	evictedReason = "Evicted"
	// criticalPriority is that of pods that are not evicted: system-cluster-critical.
	criticalPriority = 2_000_000_000
)

// An evictor ends pods whose files use more than their limits: sizeLimit of an emptyDir, and
// ephemeral-storage of containers and pods. It is a Runnable.
type evictor struct{ *pods }

// Start implements manager.Runnable.
func (e *evictor) Start(ctx context.Context) error {
	for pause(ctx, evictInterval) {
		all, err := e.list(ctx)
		if err != nil {
			continue // the cache has ended, or begins
		}
		for i := range all {
			if pod := &all[i]; pod.DeletionTimestamp == nil && !podstatus.Ended(pod.Status.Phase) && limitsStorage(pod) {
				e.examine(ctx, pod)
			}
		}
	}
	return nil
}

// limitsStorage reports whether a pod has limits of its files, and may be evicted.
func limitsStorage(pod *corev1.Pod) bool {
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority {
		return false
	}
	for i := range pod.Spec.Volumes {
		if d := pod.Spec.Volumes[i].EmptyDir; d != nil && d.SizeLimit != nil && d.SizeLimit.Sign() > 0 {
			return true
		}
	}
	_, has := requests.PodLimits(pod, requests.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	return has
}

// examine evicts a pod if its files use too much.
func (e *evictor) examine(ctx context.Context, pod *corev1.Pod) {
	uid := string(pod.UID)
	volumes, containers := map[string]int64{}, map[string]int64{}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.EmptyDir != nil {
			volumes[v.Name] = sizeOf(ctx, e.path(e.ownVolume(pod, v.Name)))
		}
	}
	for _, run := range e.runtime.Runs(uid) {
		if _, known := containers[run.ID.Container]; !known { // of all its runs
			containers[run.ID.Container] = sizeOf(ctx, e.path(filepath.Join("pods", uid, run.ID.Container)))
		}
	}
	message := exceeded(pod, volumes, containers)
	if message == "" || ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	known := e.evicted[uid] != ""
	e.evicted[uid] = message
	e.mu.Unlock()
	if !known {
		e.events.Record(pod, recorder.Event{Type: corev1.EventTypeWarning, Reason: evictedReason, Message: message})
		e.wake(uid)
	}
}

// exceeded returns why a pod is evicted, in the order and the words of a kubelet; "" if it is not.
func exceeded(pod *corev1.Pod, volumes, containers map[string]int64) string {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		if isMore(volumes[v.Name], v.EmptyDir.SizeLimit) {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())
		}
	}
	if limit, has := requests.PodLimits(pod, requests.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]; has {
		total := int64(0)
		for _, m := range []map[string]int64{volumes, containers} {
			for _, size := range m {
				total += size
			}
		}
		if isMore(total, &limit) {
			return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
		}
	}
	long := slices.Clone(pod.Spec.Containers)
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podstatus.KindOf(c) == podstatus.Sidecar {
			long = append(long, *c)
		}
	}
	for i := range long {
		c := &long[i]
		if limit := c.Resources.Limits.StorageEphemeral(); !limit.IsZero() && isMore(containers[c.Name], limit) {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return ""
}

func isMore(size int64, limit *resource.Quantity) bool {
	return resource.NewQuantity(size, resource.BinarySI).Cmp(*limit) > 0
}

// sizeOf returns what the files below a directory use, in bytes, without those that cannot be read.
func sizeOf(ctx context.Context, dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // it is gone, or belongs to another user
		}
		if info, err := d.Info(); err == nil {
			size += diskUsage(info)
		}
		return nil
	})
	return size
}
