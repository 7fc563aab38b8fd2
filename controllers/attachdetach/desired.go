package attachdetach

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
)

// managedAttach is the annotation of nodes that leave attaching to this controller.
const managedAttach = "volumes.kubernetes.io/controller-managed-attach-detach"

func isManaged(n *corev1.Node) bool { _, ok := n.Annotations[managedAttach]; return ok }

// uniqueName returns the name of a volume in the status of nodes.
func uniqueName(s *corev1.CSIPersistentVolumeSource) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + s.Driver + "^" + s.VolumeHandle)
}

// attachmentName returns the name of the VolumeAttachment of a volume to a node, which Kubernetes
// and drivers derive in the same way.
func attachmentName(s *corev1.CSIPersistentVolumeSource, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(s.VolumeHandle+s.Driver+node)))
}

// sharedByNodes reports whether the access modes of a volume allow several nodes, or may.
func sharedByNodes(v *corev1.PersistentVolume) bool {
	modes := v.Spec.AccessModes
	return len(modes) == 0 || slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany)
}

// reconcileVolume detaches a volume from the nodes that do not need it, and then attaches it to
// those that do. It returns when to look again; zero is at the next event.
func (r *reconciler) reconcileVolume(ctx context.Context, name string) (again time.Time, err error) {
	var pv corev1.PersistentVolume
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &pv, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return again, err
	}
	var list storagev1.VolumeAttachmentList
	if err := r.client.List(ctx, &list, client.MatchingFields{byVolume: name}, client.UnsafeDisableDeepCopy); err != nil {
		return again, err
	}
	v := r.volumes[name]
	if v == nil {
		v = &volume{pods: map[types.UID]bool{}, links: map[string]*link{}}
		r.volumes[name] = v
	}
	attachments := map[string]*storagev1.VolumeAttachment{}
	for i := range list.Items {
		a := &list.Items[i]
		node := a.Spec.NodeName
		if pv.Spec.CSI != nil && a.Name == attachmentName(pv.Spec.CSI, node) {
			v.link(node).unique = uniqueName(pv.Spec.CSI)
		}
		if v.links[node] != nil && v.links[node].unique != "" { // not that of another program
			attachments[node] = a
		}
	}
	if err := r.addUnsure(ctx, v, attachments); err != nil {
		return again, err
	}
	desired, err := r.desired(ctx, &pv, v)
	if err != nil {
		return again, err
	}
	later := func(t time.Time) {
		if !t.IsZero() && (again.IsZero() || t.Before(again)) {
			again = t
		}
	}
	for _, node := range slices.Sorted(maps.Keys(attachments)) {
		if len(desired[node]) > 0 {
			continue
		}
		t, err := r.detach(ctx, v.link(node), attachments[node])
		if err != nil {
			return again, err
		}
		later(t)
	}
	for _, node := range slices.Sorted(maps.Keys(desired)) {
		t, err := r.attach(ctx, &pv, v, node, attachments, desired)
		if err != nil {
			return again, err
		}
		later(t)
	}
	maps.DeleteFunc(v.links, func(node string, _ *link) bool { return attachments[node] == nil && len(desired[node]) == 0 })
	if len(v.links) == 0 {
		delete(r.volumes, name)
	}
	return again, nil
}

// addUnsure adds the VolumeAttachments whose creation had no answer, if the server has them: the
// cache may not know them yet, and a second one must not follow at another node.
func (r *reconciler) addUnsure(ctx context.Context, v *volume, attachments map[string]*storagev1.VolumeAttachment) error {
	for node, l := range v.links {
		if l.unsure == "" {
			continue
		}
		if attachments[node] != nil {
			l.unsure = ""
			continue
		}
		var a storagev1.VolumeAttachment
		err := r.live.Get(ctx, client.ObjectKey{Name: l.unsure}, &a)
		switch {
		case err == nil:
			attachments[node] = &a
		case apierrors.IsNotFound(err):
			l.unsure = ""
		default:
			return err
		}
	}
	return nil
}

// desired returns the pods that use a volume, by their nodes, the oldest first. A pod that has used
// the volume uses it until it ends, whatever becomes of its claim.
func (r *reconciler) desired(ctx context.Context, pv *corev1.PersistentVolume, v *volume) (map[string][]*corev1.Pod, error) {
	ref := pv.Spec.ClaimRef
	if pv.Spec.CSI == nil || ref == nil {
		return nil, nil
	}
	if wants, err := r.wantsAttachment(ctx, pv.Spec.CSI.Driver); err != nil || !wants {
		return nil, err
	}
	var claim corev1.PersistentVolumeClaim
	err := r.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &claim, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	bound := err == nil && claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == pv.Name && claim.UID == ref.UID
	var pods corev1.PodList
	err = r.client.List(ctx, &pods, client.InNamespace(ref.Namespace), client.MatchingFields{byClaim: ref.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	using := map[types.UID]bool{}
	all := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName == "" || terminated(p) {
			continue
		}
		managed, err := r.isManaged(ctx, p.Spec.NodeName)
		if err != nil {
			return nil, err
		}
		if !managed || !v.pods[p.UID] && (!bound || !mayUse(p, &claim)) {
			continue
		}
		using[p.UID] = true
		all[p.Spec.NodeName] = append(all[p.Spec.NodeName], p)
	}
	v.pods = using
	for _, pods := range all {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	}
	return all, nil
}

// mayUse reports whether a claim is the pod's own, if it is that of an ephemeral volume.
func mayUse(p *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name:
			return true
		case v.Ephemeral != nil && ephemeral.VolumeClaimName(p, v) == claim.Name:
			return ephemeral.VolumeIsForPod(p, claim) == nil
		}
	}
	return false
}

// terminated reports whether no container of a pod runs: it has ended, or is being deleted and all
// its containers have ended.
func terminated(p *corev1.Pod) bool {
	running := func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil && c.State.Waiting == nil }
	s := &p.Status
	return pod.Ended(p) || p.DeletionTimestamp != nil && !slices.ContainsFunc(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses), running)
}

// wantsAttachment reports whether a driver wants its volumes to be attached. One without a
// CSIDriver does.
func (r *reconciler) wantsAttachment(ctx context.Context, driver string) (bool, error) {
	var d storagev1.CSIDriver
	err := r.client.Get(ctx, client.ObjectKey{Name: driver}, &d, client.UnsafeDisableDeepCopy)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return d.Spec.AttachRequired == nil || *d.Spec.AttachRequired, nil
}

// isManaged reports whether a node has had the annotation. Its pods keep their volumes when it
// loses that, and when it is gone, until they are gone too.
func (r *reconciler) isManaged(ctx context.Context, node string) (bool, error) {
	var n corev1.Node
	err := r.client.Get(ctx, client.ObjectKey{Name: node}, &n, client.UnsafeDisableDeepCopy)
	if err == nil && isManaged(&n) {
		r.managed[node] = true
	}
	return r.managed[node], client.IgnoreNotFound(err)
}
