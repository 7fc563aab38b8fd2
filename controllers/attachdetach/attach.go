package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attach takes the next step to attach a volume to a node. It returns when to look again.
func (r *reconciler) attach(ctx context.Context, pv *corev1.PersistentVolume, v *volume, node string,
	attachments map[string]*storagev1.VolumeAttachment, desired map[string][]*corev1.Pod) (time.Time, error) {
	l, a, pods := v.link(node), attachments[node], desired[node]
	l.since, l.leaving = time.Time{}, l.leaving && a != nil && a.DeletionTimestamp != nil
	now := time.Now()
	if a != nil && a.DeletionTimestamp != nil { // a new one can follow when this one has gone
		return time.Time{}, nil
	}
	if a != nil && a.Status.Attached {
		if !l.announced {
			l.announced = true
			if !r.isReported(ctx, node, l.unique) {
				r.tell(pods, corev1.EventTypeNormal, "SuccessfulAttachVolume", fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", pv.Name))
			}
		}
		l.began, l.until, l.pause = time.Time{}, time.Time{}, 0
		return time.Time{}, r.report(ctx, node)
	}
	l.announced = false
	if now.Before(l.until) {
		return l.until, nil
	}
	if a == nil {
		if !sharedByNodes(pv) && len(attachments) > 0 {
			r.tellWaiting(pv, l, node, attachments, desired)
			return time.Time{}, nil
		}
		a = &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: attachmentName(pv.Spec.CSI, node)},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: pv.Spec.CSI.Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(pv.Name)},
			},
		}
		l.unique = uniqueName(pv.Spec.CSI)
		err := r.client.Create(ctx, a)
		if err != nil { // the cache does not wait for what it may have created
			l.unsure = a.Name
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			again := r.attachFailed(l, pv, pods, fmt.Errorf("kubernetes.io/csi: attacher.Attach failed: %w", err))
			return again, r.addUnsure(ctx, v, attachments)
		}
		attachments[node] = a
	}
	if e := a.Status.AttachError; e != nil {
		return r.attachFailed(l, pv, pods, errors.New(e.Message)).Add(reaction), nil
	}
	if l.began.IsZero() {
		l.began = now
	}
	if end := l.began.Add(attachTimeout); now.Before(end) {
		return end, nil
	}
	return r.attachFailed(l, pv, pods, fmt.Errorf("timed out waiting for external-attacher of %s CSI driver to attach volume %s",
		a.Spec.Attacher, pv.Spec.CSI.VolumeHandle)), nil
}

// attachFailed tells the pods, and returns the time of the next attempt.
func (r *reconciler) attachFailed(l *link, pv *corev1.PersistentVolume, pods []*corev1.Pod, err error) time.Time {
	r.tell(pods, corev1.EventTypeWarning, "FailedAttachVolume", fmt.Sprintf("AttachVolume.Attach failed for volume %q : %v", pv.Name, err))
	l.failed()
	return l.until
}

func (r *reconciler) tell(pods []*corev1.Pod, kind, reason, message string) {
	for _, p := range pods {
		r.events.Event(p, kind, reason, message)
	}
}

// tellWaiting tells the pods once that the volume is attached to another node, and which pods use
// it there.
func (r *reconciler) tellWaiting(pv *corev1.PersistentVolume, l *link, node string,
	attachments map[string]*storagev1.VolumeAttachment, desired map[string][]*corev1.Pod) {
	confirmed := false
	var users []string
	for other, a := range attachments {
		if other == node || !a.Status.Attached {
			continue
		}
		confirmed = true
		for _, p := range desired[other] {
			users = append(users, p.Name)
		}
	}
	if !confirmed || l.waits {
		return
	}
	l.waits = true
	message := "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
	if len(users) > 0 {
		slices.Sort(users)
		message = "Volume is already used by pod(s) " + strings.Join(users, ", ")
	}
	r.tell(desired[node], corev1.EventTypeWarning, "FailedAttachVolume", fmt.Sprintf("Waiting for detach for volume %q %s", pv.Name, message))
}

// isReported reports whether the status of a node lists a volume as attached.
func (r *reconciler) isReported(ctx context.Context, node string, unique corev1.UniqueVolumeName) bool {
	var n corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: node}, &n, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	return slices.ContainsFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == unique })
}
