package persistentvolume

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/storage"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finalizers of volumes with the policy Delete.
const (
	inTree   = "kubernetes.io/pv-controller"
	external = "external-provisioner.volume.kubernetes.io/finalizer"
)

const hostPath = "kubernetes.io/host-path"

// plugins are those that kube-controller-manager has; only hostPath can delete volumes.
var plugins = map[string]bool{
	hostPath: true, "kubernetes.io/nfs": true, "kubernetes.io/fc": true, "kubernetes.io/iscsi": true, "kubernetes.io/csi": true,
}

// syncVolume takes the next step for a volume, which may belong to the cache.
func (r *reconciler) syncVolume(ctx context.Context, v *volume) error {
	next := v.DeepCopy()
	changed := migrate(next.Annotations, storage.ProvisionedBy)
	next.Finalizers = finalizers(next)
	if changed || !slices.Equal(v.Finalizers, next.Finalizers) {
		if err := r.client.Update(ctx, next); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	next, err := r.stepVolume(ctx, next)
	if err == nil {
		r.free.put(next)
	}
	return client.IgnoreNotFound(err)
}

// stepVolume returns the volume as it is afterwards.
func (r *reconciler) stepVolume(ctx context.Context, v *volume) (*volume, error) {
	ref := v.Spec.ClaimRef
	if ref == nil {
		return r.setVolumePhase(ctx, v, corev1.VolumeAvailable, "")
	}
	if ref.UID == "" {
		v, err := r.setVolumePhase(ctx, v, corev1.VolumeAvailable, "")
		if err != nil {
			return v, err
		}
		c := &claim{}
		err = r.client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, c, client.UnsafeDisableDeepCopy)
		if err != nil {
			return v, client.IgnoreNotFound(err)
		}
		if c.Spec.VolumeName == "" && !metav1.HasAnnotation(c.ObjectMeta, storage.BindCompleted) {
			err = r.syncClaim(ctx, c)
		}
		return v, err
	}
	c, err := r.claimOf(ctx, v)
	if err != nil {
		return v, err
	}
	reclaimed := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	switch {
	case c == nil:
		if !reclaimed {
			if v, err = r.setVolumePhase(ctx, v, corev1.VolumeReleased, ""); err != nil {
				return v, err
			}
		}
		return r.reclaim(ctx, v)
	case c.Spec.VolumeName == "":
		if modeOf(c.Spec.VolumeMode) != modeOf(v.Spec.VolumeMode) {
			r.events.Eventf(v, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", c.Name)
			r.events.Eventf(c, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name)
			return v, nil
		}
		return v, r.syncClaim(ctx, c)
	case c.Spec.VolumeName == v.Name:
		return r.setVolumePhase(ctx, v, corev1.VolumeBound, "")
	case metav1.HasAnnotation(v.ObjectMeta, storage.ProvisionedBy) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		if !reclaimed {
			if v, err = r.setVolumePhase(ctx, v, corev1.VolumeReleased, ""); err != nil {
				return v, err
			}
		}
		return r.reclaim(ctx, v)
	}
	return r.unbind(ctx, v)
}

// claimOf returns the claim of a bound volume, or nil if it does not exist any more. The server is
// asked before a volume is released or deleted.
func (r *reconciler) claimOf(ctx context.Context, v *volume) (*claim, error) {
	key := types.NamespacedName{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}
	c := &claim{}
	err := r.client.Get(ctx, key, c, client.UnsafeDisableDeepCopy)
	if err == nil && c.UID == v.Spec.ClaimRef.UID {
		return c, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return nil, nil // as before, and nothing is left to do
	}
	c = &claim{}
	switch err := r.live.Get(ctx, key, c); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case c.UID != v.Spec.ClaimRef.UID:
		return nil, nil
	}
	return c, nil
}

// unbind frees a volume whose claim has another one. A volume that a user gave to the claim stays
// with the name.
func (r *reconciler) unbind(ctx context.Context, v *volume) (*volume, error) {
	next := v.DeepCopy()
	if metav1.HasAnnotation(v.ObjectMeta, storage.BoundByController) {
		next.Spec.ClaimRef = nil
		delete(next.Annotations, storage.BoundByController)
	} else {
		next.Spec.ClaimRef.UID = ""
	}
	if err := r.client.Update(ctx, next); err != nil {
		return v, err
	}
	return r.setVolumePhase(ctx, next, corev1.VolumeAvailable, "")
}

// reclaim does with a released volume what its policy says. It is not repeated before the volume
// changes.
func (r *reconciler) reclaim(ctx context.Context, v *volume) (*volume, error) {
	if v.Annotations[storage.MigratedTo] != "" {
		return v, nil // its driver does
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return v, nil
	case corev1.PersistentVolumeReclaimRecycle:
		return r.fail(ctx, v, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	case corev1.PersistentVolumeReclaimDelete:
		return r.delete(ctx, v)
	}
	return r.fail(ctx, v, "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
}

var deletable = regexp.MustCompile("/tmp/.+")

// delete deletes a volume, unless an external provisioner does.
func (r *reconciler) delete(ctx context.Context, v *volume) (*volume, error) {
	mine, why := deleter(v)
	if why != "" {
		return r.fail(ctx, v, "VolumeFailedDelete", why)
	}
	if !mine {
		return v, nil
	}
	if v.Spec.HostPath == nil || !deletable.MatchString(v.Spec.HostPath.Path) {
		path := ""
		if v.Spec.HostPath != nil {
			path = v.Spec.HostPath.Path
		}
		return r.fail(ctx, v, "VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided "+path)
	}
	now := &volume{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(v), now); err != nil {
		return v, err
	}
	if now.UID != v.UID || !reflect.DeepEqual(now.Spec, v.Spec) {
		return v, nil // its event continues
	}
	if i := slices.Index(now.Finalizers, inTree); i >= 0 {
		now.Finalizers = slices.Delete(now.Finalizers, i, i+1)
		if err := r.client.Update(ctx, now); err != nil {
			return v, err
		}
	}
	// Not if the policy has changed in between.
	return now, r.client.Delete(ctx, now, client.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion})
}

// deleter reports whether this controller deletes a volume, or returns the reason why none can.
func deleter(v *volume) (mine bool, why string) {
	if provisioner := v.Annotations[storage.ProvisionedBy]; provisioner != "" {
		switch {
		case provisioner == hostPath:
			return true, ""
		case !strings.HasPrefix(provisioner, "kubernetes.io/"):
			return false, ""
		case plugins[provisioner]:
			return false, "no deletable volume plugin matched"
		}
		return false, "no volume plugin matched name: " + provisioner
	}
	switch s := v.Spec.PersistentVolumeSource; {
	case metav1.HasAnnotation(v.ObjectMeta, storage.MigratedTo) || s.CSI != nil:
		return false, ""
	case s.HostPath != nil:
		return true, ""
	case s.NFS != nil || s.FC != nil || s.ISCSI != nil:
		return false, fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", v.Name)
	}
	return false, fmt.Sprintf("error getting deleter volume plugin for volume %q: no volume plugin matched", v.Name)
}

// fail marks a volume as one that could not be reclaimed.
func (r *reconciler) fail(ctx context.Context, v *volume, reason, message string) (*volume, error) {
	if v.Status.Phase == corev1.VolumeFailed {
		return v, nil
	}
	next, err := r.setVolumePhase(ctx, v, corev1.VolumeFailed, message)
	if err == nil {
		r.events.Event(next, corev1.EventTypeWarning, reason, message)
	}
	return next, err
}

// setVolumePhase returns the volume with the phase.
func (r *reconciler) setVolumePhase(ctx context.Context, v *volume, phase corev1.PersistentVolumePhase, message string) (*volume, error) {
	if v.Status.Phase == phase {
		return v, nil
	}
	next := v.DeepCopy()
	next.Status.Phase, next.Status.Message = phase, message
	if err := r.client.Status().Update(ctx, next); err != nil {
		return v, err
	}
	r.free.put(next)
	return next, nil
}

// migrate keeps the annotation that names the driver in place of the provisioner that the first of
// keys names, and reports whether it has changed.
func migrate(annotations map[string]string, keys ...string) bool {
	for _, key := range keys {
		provisioner, ok := annotations[key]
		if !ok {
			continue
		}
		driver := storage.Driver(provisioner)
		if annotations[storage.MigratedTo] == driver {
			return false
		}
		if driver == "" {
			delete(annotations, storage.MigratedTo)
		} else {
			annotations[storage.MigratedTo] = driver
		}
		return true
	}
	return false
}

// finalizers returns the finalizers that a volume should have: a provisioner that is part of
// kube-controller-manager protects the volumes that it deletes.
func finalizers(v *volume) []string {
	provisioner, ok := v.Annotations[storage.ProvisionedBy]
	without := func(all []string, names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(names, f) })
	}
	switch {
	case !ok:
		return v.Finalizers
	case storage.Driver(provisioner) != "":
		return without(v.Finalizers, inTree)
	case !strings.HasPrefix(provisioner, "kubernetes.io/"):
		return v.Finalizers
	case v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return without(v.Finalizers, inTree, external)
	case v.DeletionTimestamp == nil && !slices.Contains(v.Finalizers, inTree):
		return append(without(v.Finalizers, external), inTree)
	}
	return without(v.Finalizers, external)
}
