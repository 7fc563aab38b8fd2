package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// createClaim creates the extended claim of a pod: the one for extended resources that classes of
// devices provide. If the response is lost, the claim is found, and deleted, by the next attempt to
// schedule the pod.
func (s *scheduler) createClaim(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	created := claim.DeepCopy()
	created.UID = ""
	if err := s.client.Create(ctx, created); err != nil {
		return nil, fmt.Errorf("create claim for extended resources %s/: %w", claim.Namespace, err)
	}
	return created, nil
}

// reportClaim writes to the status of a pod which requests of its extended claim its containers
// use.
func (s *scheduler) reportClaim(ctx context.Context, p *corev1.Pod, claim *resourcev1.ResourceClaim, uses []corev1.ContainerExtendedResourceRequest) error {
	next := p.DeepCopy()
	next.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{RequestMappings: uses, ResourceClaimName: claim.Name}
	if err := s.client.Status().Patch(ctx, next, client.StrategicMergeFrom(p)); err != nil {
		return fmt.Errorf("update pod %s/%s ExtendedResourceClaimStatus: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// deleteClaim deletes an extended claim, after its finalizer.
func (s *scheduler) deleteClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	for conflicts := 0; ; conflicts++ {
		var is resourcev1.ResourceClaim
		if err := s.live.Get(ctx, client.ObjectKeyFromObject(claim), &is); err != nil || is.UID != claim.UID {
			return client.IgnoreNotFound(err)
		}
		if at := slices.Index(is.Finalizers, resourcev1.Finalizer); at >= 0 {
			is.Finalizers = slices.Delete(is.Finalizers, at, at+1)
			if err := s.client.Update(ctx, &is); apierrors.IsConflict(err) && conflicts < maxConflicts {
				continue
			} else if err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		return client.IgnoreNotFound(s.client.Delete(ctx, &is, client.Preconditions{UID: &claim.UID}))
	}
}

// discard deletes the extended claim that an earlier attempt has left to a pod. If that fails, the
// pod is retried.
func (s *scheduler) discard(ctx context.Context, n *pending, claim *resourcev1.ResourceClaim) {
	s.write(ctx, func() {
		if err := s.deleteClaim(ctx, claim); err != nil {
			s.inbox.put(func() { s.queue.retry(n, time.Now()) })
		}
	})
}
