package attachdetach

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// report writes the volumes that are attached to a node into its status, except those that are
// being detached. Entries of volumes that are not of CSI drivers are not changed.
func (r *reconciler) report(ctx context.Context, name string) error {
	var n corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &n, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	var list storagev1.VolumeAttachmentList
	if err := r.client.List(ctx, &list, client.MatchingFields{byNode: name}, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	want := slices.DeleteFunc(slices.Clone(n.Status.VolumesAttached), func(a corev1.AttachedVolume) bool {
		return strings.HasPrefix(string(a.Name), "kubernetes.io/csi/")
	})
	for i := range list.Items {
		a := &list.Items[i]
		if !a.Status.Attached || a.DeletionTimestamp != nil || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		unique, leaving, err := r.linkOf(ctx, a)
		if err != nil {
			return err
		}
		if unique != "" && !leaving {
			want = append(want, corev1.AttachedVolume{Name: unique})
		}
	}
	byName := func(a, b corev1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(want, byName)
	if slices.Equal(want, slices.SortedFunc(slices.Values(n.Status.VolumesAttached), byName)) {
		return nil
	}
	next := n.DeepCopy()
	next.Status.VolumesAttached = want
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, next, client.StrategicMergeFrom(&n)))
}

// linkOf returns the name of the volume of an attachment, or "" if the attachment is that of
// another program, and whether the volume is being detached.
func (r *reconciler) linkOf(ctx context.Context, a *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, bool, error) {
	volume := *a.Spec.Source.PersistentVolumeName
	if v := r.volumes[volume]; v != nil && v.links[a.Spec.NodeName] != nil && v.links[a.Spec.NodeName].unique != "" {
		l := v.links[a.Spec.NodeName]
		return l.unique, l.leaving, nil
	}
	var pv corev1.PersistentVolume
	if err := r.client.Get(ctx, client.ObjectKey{Name: volume}, &pv, client.UnsafeDisableDeepCopy); err != nil {
		return "", false, client.IgnoreNotFound(err)
	}
	if pv.Spec.CSI == nil || a.Name != attachmentName(pv.Spec.CSI, a.Spec.NodeName) {
		return "", false, nil
	}
	return uniqueName(pv.Spec.CSI), false, nil
}
