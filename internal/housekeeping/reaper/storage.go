package reaper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The storage resources whose objects are kept as long as they are in use.
var (
	volumeClaims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes          = schema.GroupResource{Resource: "persistentvolumes"}
	attributeClasses = schema.GroupResource{Group: storagev1.GroupName, Resource: "volumeattributesclasses"}
)

// protection returns the finalizer of a storage object that is in use, "" for all other kinds.
func protection(gr schema.GroupResource) string {
	switch gr {
	case volumeClaims:
		return "kubernetes.io/pvc-protection"
	case volumes:
		return "kubernetes.io/pv-protection"
	case attributeClasses:
		return "kubernetes.io/vac-protection"
	}
	return ""
}

// unusedAfter is the pause before a class that was in use is checked again.
const unusedAfter = 10 * time.Second

// unprotect returns the removal of the finalizer of a storage object that is not in use.
func (i *item) unprotect() (write, error) {
	gr := i.object.Key.Resource
	used, err := i.inUse()
	if err != nil {
		return nil, err
	}
	if used {
		if gr == attributeClasses {
			i.timers.again(time.Now().Add(unusedAfter), i.object.Key)
		}
		return nil, nil
	}
	return i.removeFinalizer(protection(gr)), nil
}

// inUse reports whether a claim is used by a pod with a node, a volume is bound, or claims and
// volumes have the class.
func (i *item) inUse() (bool, error) {
	name := i.object.Key.Name
	switch i.object.Key.Resource {
	case volumeClaims:
		return anyOf(i, pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && mounts(pod, name) })
	case volumes:
		var volume corev1.PersistentVolume
		err := json.Unmarshal(i.object.Raw, &volume)
		return volume.Status.Phase == corev1.VolumeBound, err
	}
	has := func(class *string) bool { return class != nil && *class == name }
	used, err := anyOf(i, volumeClaims, func(c *corev1.PersistentVolumeClaim) bool {
		return has(c.Spec.VolumeAttributesClassName) || has(c.Status.CurrentVolumeAttributesClassName) ||
			c.Status.ModifyVolumeStatus != nil && c.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName == name
	})
	if used || err != nil {
		return used, err
	}
	return anyOf(i, volumes, func(v *corev1.PersistentVolume) bool { return has(v.Spec.VolumeAttributesClassName) })
}

// anyOf reports whether the predicate holds for one of the objects of a resource that mention the
// item, in its namespace.
func anyOf[T any](i *item, gr schema.GroupResource, is func(*T) bool) (bool, error) {
	for o := range i.state.Snapshot(gr).All(i.object.Key.Namespace) {
		if gr != pods && !bytes.Contains(o.Raw, []byte(i.object.Key.Name)) {
			continue
		}
		var decoded T
		if err := json.Unmarshal(o.Raw, &decoded); err != nil {
			return false, fmt.Errorf("read %s: %w", o.Key, err)
		}
		if is(&decoded) {
			return true, nil
		}
	}
	return false, nil
}

// mounts reports whether a claim is among the volumes of a pod.
func mounts(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && pod.Name+"-"+v.Name == claim {
			return true
		}
	}
	return false
}

// freed queues the claims that may have waited for a deleted pod.
func (r *Reaper) freed(pod *object.Object) {
	if r.state.Count(volumeClaims) == 0 {
		return
	}
	for o := range r.state.Snapshot(volumeClaims).All(pod.Key.Namespace) {
		if o.Meta.Deleting() {
			r.queue.add(o.Key)
		}
	}
}
