package persistentvolume

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/storage"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

type (
	claim  = corev1.PersistentVolumeClaim
	volume = corev1.PersistentVolume
)

// syncClaim takes the next step for a claim, which may belong to the cache.
func (r *reconciler) syncClaim(ctx context.Context, c *claim) error {
	c = c.DeepCopy()
	if migrate(c.Annotations, storage.Provisioner, storage.BetaProvisioner) {
		if err := r.client.Update(ctx, c); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	var err error
	switch {
	case metav1.HasAnnotation(c.ObjectMeta, storage.BindCompleted):
		err = r.syncBound(ctx, c)
	case c.Spec.VolumeName != "":
		err = r.syncNamed(ctx, c)
	default:
		err = r.syncPending(ctx, c)
	}
	return client.IgnoreNotFound(err)
}

// syncPending finds a volume for a claim without one, or has it provisioned.
func (r *reconciler) syncPending(ctx context.Context, c *claim) error {
	class, err := r.class(ctx, storage.ClassOf(c))
	if err != nil {
		return err
	}
	delayed := class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	v, err := r.match(ctx, c, delayed)
	if err != nil {
		return err
	}
	if v != nil {
		return r.bind(ctx, v, c)
	}
	if !storage.HasClass(c) {
		class, err := r.defaultClass(ctx)
		if err != nil {
			return err
		}
		if class != "" {
			c.Spec.StorageClassName = &class
			return r.client.Update(ctx, c) // its event continues
		}
	}
	switch {
	case delayed && !metav1.HasAnnotation(c.ObjectMeta, storage.SelectedNode):
		if err := r.announceDelay(ctx, c); err != nil {
			return err
		}
	case storage.ClassOf(c) != "":
		return r.provision(ctx, c, class)
	default:
		r.events.Event(c, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	}
	return r.setPhase(ctx, c, corev1.ClaimPending, nil)
}

// match returns the volume for a claim, or nil. If binding is delayed, it is one that is kept for
// it.
func (r *reconciler) match(ctx context.Context, c *claim, delayed bool) (*volume, error) {
	selector := labels.Everything()
	if c.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(c.Spec.Selector); err != nil {
			return nil, err
		}
	}
	mine, err := r.volumesOf(ctx, client.ObjectKeyFromObject(c))
	if err != nil {
		return nil, err
	}
	mine = slices.DeleteFunc(mine, func(v *volume) bool {
		return !keptFor(v, c) || v.DeletionTimestamp != nil || !large(v, c) || modeOf(v.Spec.VolumeMode) != modeOf(c.Spec.VolumeMode) ||
			deref(v.Spec.VolumeAttributesClassName) != deref(c.Spec.VolumeAttributesClassName) || !containsModes(modes(v.Spec.AccessModes), c.Spec.AccessModes)
	})
	access := func(v *volume) int { return count(modes(v.Spec.AccessModes)) }
	slices.SortFunc(mine, func(a, b *volume) int {
		return cmp.Or(cmp.Compare(access(a), access(b)), strings.Compare(a.Name, b.Name))
	})
	for !delayed {
		name, n, ok := r.free.find(c, selector)
		if !ok || len(mine) > 0 && access(mine[0]) <= n {
			break
		}
		v, err := r.volume(ctx, name)
		if err == nil && free(v) && mismatch(v, c) == "" && selector.Matches(labels.Set(v.Labels)) {
			return v, nil
		}
		switch { // the index is older than the cache
		case apierrors.IsNotFound(err):
			r.free.remove(name)
		case err != nil:
			return nil, err
		default:
			r.free.put(v)
		}
	}
	if len(mine) > 0 {
		return mine[0], nil
	}
	return nil, nil
}

// offer lets the claims that wait for a volume like this one look for it, the oldest first.
func (r *reconciler) offer(ctx context.Context, name string) error {
	if !r.free.has(name) {
		return nil
	}
	v, err := r.volume(ctx, name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	class := storage.ClassOfVolume(v)
	waiting, err := r.claims(ctx, byPending, class)
	if err != nil {
		return err
	}
	if class == "" {
		unclassed, err := r.claims(ctx, byPending, noClass)
		if err != nil {
			return err
		}
		waiting = append(waiting, unclassed...)
	}
	slices.SortFunc(waiting, func(a, b *claim) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, c := range waiting {
		if mismatch(v, c) != "" || c.Spec.Selector != nil && !selects(c.Spec.Selector, v) {
			continue
		}
		if err := r.syncClaim(ctx, c); err != nil {
			return err
		}
		if !r.free.has(name) {
			return nil
		}
	}
	return nil
}

func selects(s *metav1.LabelSelector, v *volume) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(v.Labels))
}

// syncNamed binds a claim to the volume that it names, once that is there and free.
func (r *reconciler) syncNamed(ctx context.Context, c *claim) error {
	v, err := r.volume(ctx, c.Spec.VolumeName)
	switch {
	case apierrors.IsNotFound(err):
		return r.setPhase(ctx, c, corev1.ClaimPending, nil)
	case err != nil:
		return err
	case v.Spec.ClaimRef == nil:
		if why := mismatch(v, c); why != "" {
			r.events.Eventf(c, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind to requested volume %q: %s", v.Name, why)
			return r.setPhase(ctx, c, corev1.ClaimPending, nil)
		}
		return r.bind(ctx, v, c)
	case keptFor(v, c):
		return r.bind(ctx, v, c)
	}
	r.events.Eventf(c, corev1.EventTypeWarning, "FailedBinding", "volume %q already bound to a different claim.", v.Name)
	if metav1.HasAnnotation(c.ObjectMeta, storage.BoundByController) {
		return nil // the claim continues when the volume changes
	}
	return r.setPhase(ctx, c, corev1.ClaimPending, nil)
}

// syncBound checks that a claim which was bound still has its volume.
func (r *reconciler) syncBound(ctx context.Context, c *claim) error {
	if c.Spec.VolumeName == "" {
		return r.lose(ctx, c, "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	v, err := r.volume(ctx, c.Spec.VolumeName)
	switch {
	case apierrors.IsNotFound(err):
		return r.lose(ctx, c, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case err != nil:
		return err
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == c.UID:
		return r.bind(ctx, v, c)
	}
	return r.lose(ctx, c, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

// lose marks a claim as one whose volume has gone.
func (r *reconciler) lose(ctx context.Context, c *claim, reason, message string) error {
	if c.Status.Phase == corev1.ClaimLost {
		return nil
	}
	if err := r.setPhase(ctx, c, corev1.ClaimLost, nil); err != nil {
		return err
	}
	r.events.Event(c, corev1.EventTypeWarning, reason, message)
	return nil
}

// announceDelay records an event with the reason for which a claim waits.
func (r *reconciler) announceDelay(ctx context.Context, c *claim) error {
	pods, err := storage.Pods(ctx, r.client, c)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range pods {
		if p.Spec.NodeName == "" && !storage.Ended(p) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		r.events.Event(c, corev1.EventTypeNormal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case 1:
		r.events.Eventf(c, corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pod %s to be scheduled", names[0])
	default:
		r.events.Eventf(c, corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pods %s to be scheduled", strings.Join(names, ","))
	}
	return nil
}

// provision tells the provisioner of a class to make a volume, by an annotation of the claim.
func (r *reconciler) provision(ctx context.Context, c *claim, class *storagev1.StorageClass) error {
	if class == nil {
		r.events.Eventf(c, corev1.EventTypeWarning, "ProvisioningFailed", "storageclass.storage.k8s.io %q not found", storage.ClassOf(c))
		return nil
	}
	provisioner := class.Provisioner
	driver := storage.Driver(provisioner)
	switch {
	case driver != "":
		provisioner = driver
	case plugins[provisioner]:
		r.events.Event(c, corev1.EventTypeWarning, "ProvisioningFailed", "no provisionable volume plugin matched")
		return nil
	case strings.HasPrefix(provisioner, "kubernetes.io/"):
		r.events.Eventf(c, corev1.EventTypeWarning, "ProvisioningFailed", "no volume plugin matched name: %s", provisioner)
		return nil
	}
	if c.Annotations[storage.Provisioner] != provisioner {
		next := c.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.BetaProvisioner, provisioner)
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.Provisioner, provisioner)
		migrate(next.Annotations, storage.Provisioner, storage.BetaProvisioner)
		if err := r.client.Update(ctx, next); err != nil {
			r.events.Eventf(c, corev1.EventTypeWarning, "ProvisioningFailed", "Error saving claim: %v", err)
			return err
		}
		c = next
	}
	r.events.Eventf(c, corev1.EventTypeNormal, "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner '%s' "+
		"or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", provisioner)
	return nil
}

// class returns a StorageClass, or nil if it does not exist.
func (r *reconciler) class(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	if name == "" {
		return nil, nil
	}
	class := &storagev1.StorageClass{}
	err := r.client.Get(ctx, types.NamespacedName{Name: name}, class, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return class, err
}

// defaultClass returns the name of the newest default class, or "".
func (r *reconciler) defaultClass(ctx context.Context) (string, error) {
	var list storagev1.StorageClassList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	var best *storagev1.StorageClass
	for i := range list.Items {
		s := &list.Items[i]
		if isDefault(s) && (best == nil || cmp.Or(-s.CreationTimestamp.Compare(best.CreationTimestamp.Time), strings.Compare(s.Name, best.Name)) < 0) {
			best = s
		}
	}
	if best == nil {
		return "", nil
	}
	return best.Name, nil
}

// bind binds a claim and a volume to each other, and completes a binding that was begun: the volume
// is first, so that no other claim gets it.
func (r *reconciler) bind(ctx context.Context, v *volume, c *claim) error {
	next := v.DeepCopy()
	byUser := keptFor(v, c)
	if ref := v.Spec.ClaimRef; ref == nil || !byUser || ref.UID != c.UID {
		next.Spec.ClaimRef = &corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion,
		}
	}
	if !byUser && !metav1.HasAnnotation(v.ObjectMeta, storage.BoundByController) {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.BoundByController, "yes")
	}
	if !reflect.DeepEqual(v.Spec.ClaimRef, next.Spec.ClaimRef) || len(v.Annotations) != len(next.Annotations) {
		if err := r.client.Update(ctx, next); err != nil {
			return err
		}
		r.free.remove(v.Name)
	}
	next, err := r.setVolumePhase(ctx, next, corev1.VolumeBound, "")
	if err != nil {
		return err
	}
	c = c.DeepCopy()
	named := c.Spec.VolumeName == next.Name
	if !named {
		c.Spec.VolumeName = next.Name
		if !metav1.HasAnnotation(c.ObjectMeta, storage.BoundByController) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, storage.BoundByController, "yes")
		}
	}
	if !named || !metav1.HasAnnotation(c.ObjectMeta, storage.BindCompleted) {
		if !metav1.HasAnnotation(c.ObjectMeta, storage.BindCompleted) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, storage.BindCompleted, "yes")
		}
		if err := r.client.Update(ctx, c); err != nil {
			return err
		}
	}
	return r.setPhase(ctx, c, corev1.ClaimBound, next)
}

// setPhase writes the status of a claim with its volume, or without one if that is nil.
func (r *reconciler) setPhase(ctx context.Context, c *claim, phase corev1.PersistentVolumeClaimPhase, v *volume) error {
	next := c.DeepCopy()
	next.Status.Phase = phase
	if v == nil {
		next.Status.AccessModes, next.Status.Capacity, next.Status.CurrentVolumeAttributesClassName = nil, nil, nil
	} else {
		next.Status.AccessModes = v.Spec.AccessModes
		if c.Status.Phase != phase {
			capacity, ok := v.Spec.Capacity[corev1.ResourceStorage]
			if !ok {
				return fmt.Errorf("PersistentVolume %q is without a storage capacity", v.Name)
			}
			had, ok := c.Status.Capacity[corev1.ResourceStorage]
			if text, resizing := v.Annotations[storage.PreResizeCapacity]; resizing {
				if before, err := resource.ParseQuantity(text); err == nil {
					capacity = before
				}
				next.Status.Capacity = maps.Clone(next.Status.Capacity)
				if next.Status.Capacity == nil {
					next.Status.Capacity = corev1.ResourceList{}
				}
				next.Status.Capacity[corev1.ResourceStorage] = capacity
			} else if !ok || capacity.Cmp(had) != 0 {
				next.Status.Capacity = v.Spec.Capacity
			}
		}
		if c.Status.Phase == corev1.ClaimPending && phase == corev1.ClaimBound {
			next.Status.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
		}
	}
	if reflect.DeepEqual(c.Status, next.Status) {
		return nil
	}
	if err := r.client.Status().Update(ctx, next); err != nil {
		return err
	}
	*c = *next
	return nil
}

// keptFor reports whether a volume has a claim as its own, perhaps by name only.
func keptFor(v *volume, c *claim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && (ref.UID == "" || ref.UID == c.UID)
}

func large(v *volume, c *claim) bool {
	has, want := v.Spec.Capacity[corev1.ResourceStorage], c.Spec.Resources.Requests[corev1.ResourceStorage]
	return has.Cmp(want) >= 0
}

// mismatch returns the reason why a volume cannot be bound to a claim, or "".
func mismatch(v *volume, c *claim) string {
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case !large(v, c):
		return "requested PV is too small"
	case storage.ClassOfVolume(v) != storage.ClassOf(c):
		return "storageClassName does not match"
	case deref(v.Spec.VolumeAttributesClassName) != deref(c.Spec.VolumeAttributesClassName):
		return "volumeAttributesClassName does not match"
	case modeOf(v.Spec.VolumeMode) != modeOf(c.Spec.VolumeMode):
		return "incompatible volumeMode"
	case !containsModes(modes(v.Spec.AccessModes), c.Spec.AccessModes):
		return "incompatible accessMode"
	}
	return ""
}
