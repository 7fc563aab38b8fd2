package statefulset

import (
	"context"
	"sync/atomic"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// step does what is to be done next: first the replicas, then those that are too many, then the
// update. In order, it ends at the first pod that has to change or to become available.
func (o *round) step(ctx context.Context) error {
	first := o.firstUnavailable()
	if wait, err := o.each(o.replicas, func(p *corev1.Pod) (bool, error) { return o.keep(ctx, p) }); wait || err != nil {
		return err
	}
	if wait, err := o.each(o.condemned, func(p *corev1.Pod) (bool, error) { return false, o.release(ctx, p) }); wait || err != nil {
		return err
	}
	if wait, err := o.each(o.condemned, func(p *corev1.Pod) (bool, error) { return o.condemn(ctx, p, first) }); wait || err != nil {
		return err
	}
	return o.roll(ctx)
}

func (o *round) inParallel() bool {
	return o.set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}

// each calls do for the pods: in order, until it returns that the others have to wait, or in
// parallel, where they never do.
func (o *round) each(pods []*corev1.Pod, do func(*corev1.Pod) (wait bool, err error)) (wait bool, err error) {
	if o.inParallel() {
		var next atomic.Int32
		return false, pod.SlowStart(len(pods), func() error {
			_, err := do(pods[next.Add(1)-1])
			return err
		})
	}
	for _, p := range pods {
		if wait, err := do(p); wait || err != nil {
			return wait, err
		}
	}
	return false, nil
}

// firstUnavailable returns the pod with the lowest ordinal that cannot serve, among the replicas,
// or else the condemned ones; nil if there is none.
func (o *round) firstUnavailable() *corev1.Pod {
	for _, p := range o.replicas {
		if !o.canServe(p) {
			return p
		}
	}
	for i := len(o.condemned) - 1; i >= 0; i-- {
		if p := o.condemned[i]; !o.canServe(p) {
			return p
		}
	}
	return nil
}

// keep creates a replica, deletes it when it has ended, and repairs its identity and storage. It
// returns whether its successors have to wait.
func (o *round) keep(ctx context.Context, p *corev1.Pod) (wait bool, err error) {
	if pod.Ended(p) {
		if p.DeletionTimestamp == nil {
			return true, o.delete(ctx, p)
		}
		return true, nil // its end starts the next reconcile
	}
	if !exists(p) {
		if stale, err := o.hasStaleClaim(ctx, p); stale || err != nil {
			return true, err
		}
		return true, o.create(ctx, p)
	}
	if p.Status.Phase == corev1.PodPending {
		if err := o.createClaims(ctx, p); err != nil {
			return true, err
		}
		if err := o.ownClaims(ctx, p); err != nil {
			o.note("Update", p, err)
			return true, err
		}
	}
	if !o.inParallel() && (p.DeletionTimestamp != nil || !isReady(p) || !o.isAvailable(p)) {
		return true, nil
	}
	if hasIdentity(o.set, p) && hasStorage(o.set, p) {
		if ok, err := o.ownsClaims(ctx, p); ok || err != nil {
			return false, err
		}
	}
	return false, o.repair(ctx, p)
}

// create creates the claims of a pod and then the pod. That it exists already is an error without
// an event: the cache has not seen it yet, or another has taken its name.
func (o *round) create(ctx context.Context, p *corev1.Pod) error {
	if err := o.createClaims(ctx, p); err != nil {
		o.note("Create", p, err)
		return err
	}
	created := p.DeepCopy() // p tells the status that the pod did not exist
	err := o.client.Create(ctx, created)
	if apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := o.ownClaims(ctx, p); err != nil {
		o.note("Update", p, err)
		return err
	}
	o.note("Create", p, err)
	return err
}

// repair gives a pod the labels and volumes of its identity, and its claims their owners. After a
// conflict it tries again, on the pod as the server has it.
func (o *round) repair(ctx context.Context, p *corev1.Pod) error {
	for tries := 0; ; tries++ {
		next := p.DeepCopy()
		changed := false
		if !hasIdentity(o.set, p) {
			identify(o.set, next)
			changed = true
		}
		if !hasStorage(o.set, p) {
			mountClaims(o.set, next)
			changed = true
			if err := o.createClaims(ctx, p); err != nil {
				o.note("Update", p, err)
				return err
			}
		}
		owns, err := o.ownsClaims(ctx, p)
		if err == nil && !owns {
			err = o.ownClaims(ctx, p)
		}
		if err != nil {
			o.note("Update", p, err)
			return err
		}
		if !changed && owns {
			return nil
		}
		if changed {
			err = o.client.Update(ctx, next)
		}
		if tries < 4 && apierrors.IsConflict(err) {
			live := &corev1.Pod{}
			if o.live.Get(ctx, client.ObjectKeyFromObject(p), live) == nil && live.UID == p.UID {
				p = live
				continue
			}
		}
		o.note("Update", p, err)
		return err
	}
}

// release gives the claims of a condemned pod their owners.
func (o *round) release(ctx context.Context, p *corev1.Pod) error {
	if ok, err := o.ownsClaims(ctx, p); ok || err != nil {
		return err
	}
	return o.ownClaims(ctx, p)
}

// condemn deletes a pod that is too many. In order, the others have to wait for its end, and it
// waits until all others can serve.
func (o *round) condemn(ctx context.Context, p, firstUnavailable *corev1.Pod) (wait bool, err error) {
	switch {
	case p.DeletionTimestamp != nil:
		return true, nil
	case !o.inParallel() && !(isReady(p) && o.isAvailable(p)) && p != firstUnavailable:
		return true, nil
	}
	return true, o.delete(ctx, p)
}

// delete deletes a pod.
func (o *round) delete(ctx context.Context, p *corev1.Pod) error {
	gone := &corev1.Pod{}
	gone.Namespace, gone.Name = p.Namespace, p.Name
	err := client.IgnoreNotFound(o.client.Delete(ctx, gone))
	o.note("Delete", p, err)
	return err
}

// note records an event about a pod.
func (o *round) note(verb string, p *corev1.Pod, err error) {
	if err != nil {
		o.events.Eventf(o.set, corev1.EventTypeWarning, "Failed"+verb, "%s Pod %s in StatefulSet %s failed error: %s", verb, p.Name, o.set.Name, err)
		return
	}
	o.events.Eventf(o.set, corev1.EventTypeNormal, "Successful"+verb, "%s Pod %s in StatefulSet %s successful", verb, p.Name, o.set.Name)
}
