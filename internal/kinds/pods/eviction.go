package pods

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// evictPod deletes a pod if its disruption budget allows it.
func evictPod() *resource.Action {
	gvk := policyv1.SchemeGroupVersion.WithKind("Eviction")
	evict := kind.Action(gvk, nil, func(ctx context.Context, s *resource.Store, r *resource.Request, body *policyv1.Eviction) (resource.Result, error) {
		if body.Name != r.Name {
			return resource.Result{}, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
		}
		options := body.DeleteOptions
		if options == nil {
			options = &metav1.DeleteOptions{}
		}
		if ignore := options.IgnoreStoreReadErrorWithClusterBreakingPotential; ignore != nil && *ignore {
			return resource.Result{}, causes.Invalid(gvk.GroupKind(), r.Name, field.ErrorList{field.Invalid(
				field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true, "can not be set for pod eviction, try after removing the option")})
		}
		if asked := []string{metav1.DryRunAll}; r.DryRun && len(options.DryRun) > 0 && !slices.Equal(options.DryRun, asked) {
			return resource.Result{}, kind.Refusal(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", asked, options.DryRun))
		}
		pod, err := aboutPod(s, r, r.Name, "status")
		if err != nil {
			return resource.Result{}, err
		}
		pod.DryRun = r.DryRun || len(options.DryRun) > 0
		return (&eviction{store: s, pod: pod, options: options}).run(ctx)
	})
	evict.Also = []schema.GroupVersion{{Group: gvk.Group, Version: "v1beta1"}}
	return evict
}

// eviction is one request to evict a pod.
type eviction struct {
	store   *resource.Store
	pod     *resource.Request
	options *metav1.DeleteOptions
}

func (e *eviction) run(ctx context.Context) (resource.Result, error) {
	for {
		pod, err := e.current(ctx)
		if err != nil {
			return resource.Result{}, err
		}
		if unguarded(pod) {
			err := e.delete(ctx, pod, !done(pod))
			if apierrors.IsConflict(err) && !e.versioned() && ctx.Err() == nil {
				continue // the pod was written in the meantime
			}
			return succeeded(http.StatusCreated), err
		}
		return e.guarded(ctx, pod)
	}
}

// guarded evicts a pod that is subject to a disruption budget.
func (e *eviction) guarded(ctx context.Context, pod *corev1.Pod) (resource.Result, error) {
	found := e.budgetsOf(pod)
	switch len(found) {
	case 0:
		return succeeded(http.StatusCreated), e.delete(ctx, pod, false)
	case 1:
	default:
		return resource.Result{}, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
			Code:    http.StatusInternalServerError,
		}}
	}
	budget := found[0]
	// A budget does not count an unready pod. The pod must still be unready when it is deleted.
	still := !isReady(pod) && freesUnready(budget)
	if !still {
		if err := e.take(ctx, budget); err != nil {
			return resource.Result{}, err
		}
	}
	err := e.delete(ctx, pod, still)
	if apierrors.IsConflict(err) && still && !e.versioned() {
		err = tooManyEvictions(budget.Name)
	}
	return succeeded(http.StatusCreated), err
}

func (e *eviction) current(ctx context.Context) (*corev1.Pod, error) {
	result, err := e.store.Get(ctx, e.pod, "")
	if err != nil {
		return nil, err
	}
	tree, err := resource.TreeOf(e.pod.Definition, e.pod.Version, result.Object)
	if err != nil {
		return nil, err
	}
	return kind.Decoded[corev1.Pod](tree), nil
}

// versioned reports whether the request has a precondition on the resourceVersion.
func (e *eviction) versioned() bool {
	return e.options.Preconditions != nil && e.options.Preconditions.ResourceVersion != nil
}

// delete adds the condition DisruptionTarget to the pod and deletes it. With still, the pod must
// not have changed in the meantime.
func (e *eviction) delete(ctx context.Context, pod *corev1.Pod, still bool) error {
	options := e.options.DeepCopy()
	if still && !e.versioned() {
		if options.Preconditions == nil {
			options.Preconditions = &metav1.Preconditions{}
		}
		options.Preconditions.ResourceVersion = &pod.ResourceVersion
	}
	if !e.pod.DryRun {
		marked, err := e.store.Edit(ctx, e.pod, func(live resource.Tree) error {
			if err := e.expected(options.Preconditions, live); err != nil {
				return err
			}
			setPodCondition(live, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
			}, time.Now())
			return nil
		})
		if err != nil {
			return err
		}
		if options.Preconditions != nil && options.Preconditions.ResourceVersion != nil {
			version := marked.Object.Revision.String()
			options.Preconditions.ResourceVersion = &version
		}
	}
	r := *e.pod
	r.Subresource = ""
	_, err := e.store.Delete(ctx, &r, options)
	return err
}

// expected returns an error if the pod does not meet the preconditions.
func (e *eviction) expected(p *metav1.Preconditions, pod resource.Tree) error {
	uid, version := kind.Text(pod, "metadata", "uid"), kind.Text(pod, "metadata", "resourceVersion")
	var err error
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != "" && string(*p.UID) != uid:
		err = fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, uid)
	case p.ResourceVersion != nil && *p.ResourceVersion != "" && *p.ResourceVersion != version:
		err = fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, version)
	default:
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Resource: "Pod"}, e.pod.Name, err)
}

// budgetsOf returns the disruption budgets that select a pod.
func (e *eviction) budgetsOf(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	d := e.store.Registry().Load().Resource(Budgets)
	if d == nil {
		return nil
	}
	var found []*policyv1.PodDisruptionBudget
	for o := range e.store.State().Snapshot(Budgets).From(pod.Namespace, "", "") {
		tree, err := resource.TreeOf(d, d.Storage, o)
		if err != nil {
			continue // a budget that cannot be decoded protects nothing
		}
		budget := kind.Decoded[policyv1.PodDisruptionBudget](tree)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	return found
}

// take adds the pod to the disrupted pods in the status of its budget, if the budget allows it.
func (e *eviction) take(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	d := e.store.Registry().Load().Resource(Budgets)
	r := &resource.Request{
		Definition: d, Version: d.Storage, Namespace: budget.Namespace, Name: budget.Name, Subresource: "status",
		Manager: "kapok", FieldValidation: metav1.FieldValidationIgnore, DryRun: e.pod.DryRun, Warn: func(string) {},
	}
	_, err := e.store.Edit(ctx, r, func(live resource.Tree) error {
		now := kind.Decoded[policyv1.PodDisruptionBudget](live)
		if err := mayDisrupt(now); err != nil {
			return err
		}
		disrupt(now, e.pod.Name, metav1.Now())
		kind.Edited(func(obj *policyv1.PodDisruptionBudget) { obj.Status = now.Status })(live)
		return nil
	})
	return err
}

// done reports whether a pod has ended or is being deleted.
func done(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
}

// unguarded reports whether the eviction of a pod disrupts nothing, because it does not run yet or
// any more.
func unguarded(pod *corev1.Pod) bool { return done(pod) || pod.Status.Phase == corev1.PodPending }

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
