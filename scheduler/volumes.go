package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// byController is the annotation of volumes that were chosen for a claim, not by a user.
const byController = "pv.kubernetes.io/bound-by-controller"

// prepare writes which volumes a pod gets on a node, or for which node volumes are provisioned. The
// pod is tried again when its claims have their volumes. (Kubernetes keeps the place on the node
// meanwhile.)
func (s *scheduler) prepare(ctx context.Context, n *pending, node string, choices []place.Choice) {
	for _, c := range choices {
		if c.Volume == nil && !metav1.HasAnnotation(c.Claim.ObjectMeta, place.SelectedNode) {
			if slices.Contains(n.prepared, c.Claim.Name) { // the provisioner has given up
				s.report(ctx, n, corev1.PodReasonSchedulerError, fmt.Sprintf("running PreBind plugin %q: binding volumes: provisioning failed for PVC %q", "VolumeBinding", c.Claim.Name))
				continue
			}
			n.prepared = append(n.prepared, c.Claim.Name)
		}
	}
	s.write(ctx, func() {
		for _, c := range choices {
			if err := s.choose(ctx, node, c); err != nil {
				s.inbox.put(func() { s.queue.retry(n, time.Now()) })
				return
			}
		}
	})
	s.queue.fail(n, []string{"VolumeBinding"}, time.Now())
}

func (s *scheduler) choose(ctx context.Context, node string, c place.Choice) error {
	if v := c.Volume; v != nil {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == c.Claim.UID {
			return nil // the controller of volumes does the rest
		}
		next := v.DeepCopy()
		next.Spec.ClaimRef = &corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Claim.Namespace, Name: c.Claim.Name, UID: c.Claim.UID,
		}
		if v.Spec.ClaimRef == nil {
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, byController, "yes")
		}
		return s.client.Patch(ctx, next, client.StrategicMergeFrom(v, client.MergeFromWithOptimisticLock{}))
	}
	if metav1.HasAnnotation(c.Claim.ObjectMeta, place.SelectedNode) {
		return nil // the provisioner does the rest
	}
	next := c.Claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, place.SelectedNode, node)
	return s.client.Patch(ctx, next, client.StrategicMergeFrom(c.Claim, client.MergeFromWithOptimisticLock{}))
}

func (s *scheduler) setClaim(_, o client.Object) {
	s.cluster.SetClaim(o.(*corev1.PersistentVolumeClaim))
	s.queue.happened(time.Now(), "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
}

func (s *scheduler) removeClaim(o client.Object) {
	s.cluster.RemoveClaim(o.GetNamespace(), o.GetName())
}

func (s *scheduler) setVolume(_, o client.Object) {
	s.cluster.SetVolume(o.(*corev1.PersistentVolume))
	s.queue.happened(time.Now(), "VolumeBinding", "VolumeZone")
}

func (s *scheduler) removeVolume(o client.Object) { s.cluster.RemoveVolume(o.GetName()) }

func (s *scheduler) setStorageClass(_, o client.Object) {
	s.cluster.SetStorageClass(o.(*storagev1.StorageClass))
	s.queue.happened(time.Now(), "VolumeBinding", "VolumeZone")
}

func (s *scheduler) removeStorageClass(o client.Object) { s.cluster.RemoveStorageClass(o.GetName()) }
