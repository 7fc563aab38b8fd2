package attachdetach

import (
	"context"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// outOfService reports whether an administrator says that a node is off.
func outOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// detach takes the next step to detach a volume from the node of an attachment. It returns when to
// look again.
func (r *reconciler) detach(ctx context.Context, l *link, a *storagev1.VolumeAttachment) (time.Time, error) {
	now := time.Now()
	l.waits, l.announced, l.began = false, false, time.Time{}
	if l.since.IsZero() {
		l.since = now
	}
	if a.DeletionTimestamp != nil { // the driver detaches it
		return time.Time{}, nil
	}
	var n corev1.Node
	err := r.client.Get(ctx, client.ObjectKey{Name: a.Spec.NodeName}, &n, client.UnsafeDisableDeepCopy)
	switch {
	case err == nil:
		l.inUse = slices.Contains(n.Status.VolumesInUse, l.unique)
	case !apierrors.IsNotFound(err):
		return time.Time{}, err
	}
	timeout := l.since.Add(unmountTimeout)
	expired := now.After(timeout)
	force := outOfService(&n) || expired && !ready(&n)
	switch {
	case l.inUse && !force && !ready(&n):
		return timeout.Add(time.Millisecond), nil
	case l.inUse && !force:
		return time.Time{}, nil
	case now.Before(l.until):
		return l.until, nil
	}
	l.leaving = true
	if err := r.report(ctx, a.Spec.NodeName); err != nil {
		l.leaving = false
		return time.Time{}, err
	}
	if !expired && !outOfService(&n) {
		safe, err := r.isUnmounted(ctx, a.Spec.NodeName, l.unique)
		if err != nil || !safe {
			l.failed()
			return l.until, err
		}
	}
	gone := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	err = r.client.Delete(ctx, gone, client.Preconditions{UID: &a.UID})
	return time.Time{}, client.IgnoreNotFound(err)
}

// isUnmounted asks the server whether a node has unmounted a volume: the cache may not know that it
// has just begun to use it.
func (r *reconciler) isUnmounted(ctx context.Context, node string, unique corev1.UniqueVolumeName) (bool, error) {
	var n corev1.Node
	if err := r.live.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return !slices.Contains(n.Status.VolumesInUse, unique), nil
}
