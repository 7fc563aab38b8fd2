package resourceclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controllers/internal/owned"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	acv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// fieldManager is the manager of the names of claims in the status of pods, as in Kubernetes.
const fieldManager = "ResourceClaimController"

// maxBase is the length of a name before the random part that the server appends, and its hyphen.
const maxBase = 57

// needsWork reports whether a claim of a pod must be created, or reserved.
// Those of a pod that has ended are not: they would be deleted at once.
func (r *reconciler) needsWork(ctx context.Context, p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || done(p) {
		return false
	}
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		claim, mustOwn, err := resourceclaim.Name(p, c)
		switch {
		case err != nil:
			return true
		case claim == nil: // the pod runs without it
			continue
		}
		var found resourcev1.ResourceClaim
		switch err := r.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: *claim}, &found, client.UnsafeDisableDeepCopy); {
		case apierrors.IsNotFound(err) && c.ResourceClaimTemplateName == nil: // a user must create it
			continue
		case err != nil:
			return true
		}
		if mustOwn && resourceclaim.IsForPod(p, &found, false) != nil {
			continue
		}
		if mustReserve(p, &found) {
			return true
		}
	}
	return false
}

// mustReserve reports whether an allocated claim must be reserved for a pod. Mostly the scheduler
// does that; not for a pod that was created with a node.
func mustReserve(p *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return p.Spec.NodeName != "" && claim.Status.Allocation != nil &&
		!resourceclaim.IsReservedForPod(p, claim, false) && resourceclaim.CanBeReserved(claim)
}

// reconcilePod creates and reserves the claims of a pod.
func (r *reconciler) reconcilePod(ctx context.Context, key client.ObjectKey) error {
	var p corev1.Pod
	if err := r.client.Get(ctx, key, &p, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if p.DeletionTimestamp != nil || done(&p) {
		return nil
	}
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return controller.TerminalError(fmt.Errorf("pod is a member of PodGroup %s, and its claims are not supported", *g.PodGroupName))
	}
	created := map[string]string{} // names of claims by their names in the pod
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		claim, err := r.ensure(ctx, &p, c)
		if err != nil {
			r.events.Eventf(&p, corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: %v", c.Name, err)
			return fmt.Errorf("claim %s: %w", c.Name, err)
		}
		if claim != "" {
			created[c.Name] = claim
		}
	}
	if err := r.publish(ctx, &p, created); err != nil {
		return err
	}
	if p.Spec.NodeName == "" {
		return nil
	}
	return r.reserve(ctx, &p)
}

// ensure creates a claim of a pod from its template, and returns its name, or "" if the pod has it
// or needs none.
func (r *reconciler) ensure(ctx context.Context, p *corev1.Pod, c *corev1.PodResourceClaim) (string, error) {
	switch claim, mustOwn, err := resourceclaim.Name(p, c); {
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
	case err != nil:
		return "", fmt.Errorf("checking for claim before creating it: %w", err)
	case claim == nil:
		return "", nil
	case *claim != "":
		found, err := r.find(ctx, client.ObjectKey{Namespace: p.Namespace, Name: *claim})
		if err != nil {
			return "", fmt.Errorf("checking claim existence: %w", err)
		}
		if found != nil && (!mustOwn || resourceclaim.IsForPod(p, found, false) == nil) {
			return "", nil
		}
	}
	if c.ResourceClaimTemplateName == nil {
		return "", nil
	}
	// An earlier attempt may have failed after the creation, before it wrote the name into the status.
	var claims resourcev1.ResourceClaimList
	if err := owned.List(ctx, r.client, &claims, p.Namespace, p.UID); err != nil {
		return "", err
	}
	for _, claim := range claims.Items {
		if claim.Annotations[resourcev1.PodResourceClaimAnnotation] == c.Name {
			return claim.Name, nil
		}
	}
	var template resourcev1.ResourceClaimTemplate
	key := client.ObjectKey{Namespace: p.Namespace, Name: *c.ResourceClaimTemplateName}
	if err := r.client.Get(ctx, key, &template); err != nil {
		if apierrors.IsNotFound(err) {
			err = apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplate"), key.Name)
		}
		return "", fmt.Errorf("resource claim template %q: %w", key.Name, err)
	}
	claim := fromTemplate(p, c.Name, &template)
	if err := r.client.Create(ctx, claim); err != nil {
		return "", fmt.Errorf("create ResourceClaim : %w", err)
	}
	return claim.Name, nil
}

// find returns a claim, or nil if there is none. The server has the last word: the cache may not
// know a new claim yet.
func (r *reconciler) find(ctx context.Context, key client.ObjectKey) (*resourcev1.ResourceClaim, error) {
	claim := &resourcev1.ResourceClaim{}
	err := r.client.Get(ctx, key, claim, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, claim)
	}
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return claim, nil
}

// fromTemplate returns a new claim of a pod.
func fromTemplate(p *corev1.Pod, name string, t *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	ref := metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))
	ref.BlockOwnerDeletion = nil
	annotations := maps.Clone(t.Spec.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourcev1.PodResourceClaimAnnotation] = name
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, GenerateName: base(p.Name, name), Labels: t.Spec.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*ref},
		},
		Spec: t.Spec.Spec,
	}
}

// base returns the beginning of the name of a claim. If both names together are too long, each is
// cut in proportion to its length.
func base(pod, claim string) string {
	all := pod + "-" + claim + "-"
	if n := len(all); n > maxBase {
		return pod[:len(pod)*maxBase/n] + "-" + claim[:len(claim)*maxBase/n]
	}
	return all
}

// publish writes the names of new claims into the status of a pod, beside those that it has.
func (r *reconciler) publish(ctx context.Context, p *corev1.Pod, created map[string]string) error {
	if len(created) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			all[s.Name] = *s.ResourceClaimName
		}
	}
	maps.Copy(all, created)
	status := acv1.PodStatus()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		status.WithResourceClaimStatuses(acv1.PodResourceClaimStatus().WithName(name).WithResourceClaimName(all[name]))
	}
	err := r.client.Status().Apply(ctx, acv1.Pod(p.Name, p.Namespace).WithStatus(status), client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("update the claims in the status: %w", err)
	}
	return nil
}

// reserve reserves the allocated claims of a pod with a node.
func (r *reconciler) reserve(ctx context.Context, p *corev1.Pod) error {
	for i := range p.Spec.ResourceClaims {
		name, mustOwn, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		switch {
		case errors.Is(err, resourceclaim.ErrClaimNotFound): // the event of the new status starts the next reconcile
			return nil
		case err != nil:
			return err
		case name == nil:
			continue
		}
		var claim resourcev1.ResourceClaim
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: *name}, &claim, client.UnsafeDisableDeepCopy); err != nil {
			return client.IgnoreNotFound(err)
		}
		if mustOwn {
			if err := resourceclaim.IsForPod(p, &claim, false); err != nil {
				return err
			}
		}
		if !mustReserve(p, &claim) {
			continue
		}
		next := claim.DeepCopy()
		next.Status.ReservedFor = append(next.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		if err := r.client.Status().Update(ctx, next); err != nil {
			return fmt.Errorf("reserve claim %s: %w", claim.Name, err)
		}
	}
	return nil
}
