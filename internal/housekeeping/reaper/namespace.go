package reaper

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

var pods = schema.GroupResource{Resource: "pods"}

// emptyNamespace deletes the objects in a namespace that is being deleted, after its grace: pods
// first, and the others when the pods are gone. The namespace's conditions list what remains; when
// nothing does, its finalizer is removed. Objects that go later come as events.
func (i *item) emptyNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{}
	if err := json.Unmarshal(i.object.Raw, ns); err != nil {
		return fmt.Errorf("read %s: %w", i.object.Key, err)
	}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return nil
	}
	if at := i.graceEnds(ns); time.Now().Before(at) {
		i.timers.again(at, i.object.Key)
		return nil
	}
	var rest remains
	i.clear(ctx, ns.Name, &rest, func(gr schema.GroupResource) bool { return gr == pods })
	found := remains{errs: rest.errs} // Kubernetes does not count other objects while there are pods
	if rest.total == 0 {
		i.clear(ctx, ns.Name, &rest, func(gr schema.GroupResource) bool { return gr != pods })
		found = rest
	}
	if err := i.report(ctx, ns, &found); err != nil {
		return err
	}
	if rest.total > 0 || len(rest.errs) > 0 {
		return utilerrors.NewAggregate(rest.errs)
	}
	return i.finalizeNamespace(ctx)
}

// graceEnds returns the end of a namespace's grace. It reads the wall clock once for each
// namespace, and may return a time that is too late if the clock has jumped since the deletion.
func (i *item) graceEnds(ns *corev1.Namespace) time.Time {
	at, known := i.graces[ns.UID]
	if !known {
		left := time.Until(ns.DeletionTimestamp.Add(i.opts.NamespaceGrace))
		at = time.Now().Add(min(max(left, 0), i.opts.NamespaceGrace))
		i.graces[ns.UID] = at
	}
	return at
}

// remains describes the remaining content of a namespace.
type remains struct {
	total      int
	resources  []string // with their counts
	finalizers map[string]int
	errs       []error
}

// clear deletes the objects of some resources in a namespace, and counts those that remain.
func (i *item) clear(ctx context.Context, namespace string, rest *remains, wanted func(schema.GroupResource) bool) {
	for _, d := range i.store.Registry().Load().All() {
		gr := d.GroupResource()
		if !d.Namespaced || !wanted(gr) {
			continue
		}
		objects := slices.Collect(i.state.Snapshot(gr).All(namespace))
		errs := make([]error, len(objects))
		together(len(objects), func(n int) { errs[n] = i.clearOne(ctx, d, objects[n]) })
		rest.errs = append(rest.errs, slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
		left := 0
		for o := range i.state.Snapshot(gr).All(namespace) {
			left++
			for _, name := range o.Meta.Finalizers {
				if rest.finalizers == nil {
					rest.finalizers = map[string]int{}
				}
				rest.finalizers[name]++
			}
		}
		if left > 0 {
			rest.total += left
			rest.resources = append(rest.resources, fmt.Sprintf("%s.%s has %d resource instances", gr.Resource, gr.Group, left))
		}
	}
}

func (i *item) clearOne(ctx context.Context, d *resource.Definition, o *object.Object) error {
	if o.Meta.Deleting() {
		return nil // it is deleted when its finalizers are removed
	}
	background := metav1.DeletePropagationBackground
	r := request(d, o.Key, "", emptier)
	r.OneOfMany = true // Kubernetes uses deletecollection
	_, err := i.store.Delete(ctx, r, &metav1.DeleteOptions{
		PropagationPolicy: &background,
		Preconditions:     &metav1.Preconditions{UID: &o.Meta.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// report writes what remains to the conditions of the namespace, if they differ.
func (i *item) report(ctx context.Context, ns *corev1.Namespace, rest *remains) error {
	if !setConditions(&ns.Status.Conditions, rest.conditions(), time.Now()) {
		return nil
	}
	obj, err := resource.TreeOf(i.definition, i.definition.Storage, i.object)
	if err != nil {
		return err
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ns.Status)
	if err != nil {
		return err
	}
	obj["status"] = status
	return i.update(ctx, "status", obj)
}

// conditions returns the conditions of a namespace with such contents, in Kubernetes' words.
func (r *remains) conditions() []corev1.NamespaceCondition {
	all := []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Reason: "ContentRemoved", Message: "All content successfully removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
	}
	fail := func(kind corev1.NamespaceConditionType, reason, message string, parts []string) {
		slices.Sort(parts)
		for n := range all {
			if all[n].Type == kind {
				all[n].Status, all[n].Reason, all[n].Message = corev1.ConditionTrue, reason, message+strings.Join(parts, ", ")
			}
		}
	}
	for n := range all {
		all[n].Status = corev1.ConditionFalse
	}
	if len(r.errs) > 0 {
		var messages []string
		for _, err := range r.errs {
			messages = append(messages, err.Error())
		}
		fail(corev1.NamespaceDeletionContentFailure, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: ", len(messages)), messages)
	}
	if len(r.resources) > 0 {
		fail(corev1.NamespaceContentRemaining, "SomeResourcesRemain", "Some resources are remaining: ", slices.Clone(r.resources))
	}
	if len(r.finalizers) > 0 {
		var names []string
		for name, n := range r.finalizers {
			names = append(names, fmt.Sprintf("%s in %d resource instances", name, n))
		}
		fail(corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: ", names)
	}
	return all
}

// setConditions adds or replaces conditions, and reports whether that changes anything. Transition
// times change with the status only.
func setConditions(have *[]corev1.NamespaceCondition, want []corev1.NamespaceCondition, now time.Time) (changed bool) {
	for _, c := range want {
		c.LastTransitionTime = metav1.NewTime(now)
		n := slices.IndexFunc(*have, func(old corev1.NamespaceCondition) bool { return old.Type == c.Type })
		if n < 0 {
			*have = append(*have, c)
			changed = true
			continue
		}
		old := &(*have)[n]
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		changed = true
	}
	return changed
}

// finalizeNamespace removes the finalizer that holds the namespace for its contents.
func (i *item) finalizeNamespace(ctx context.Context) error {
	o, _ := i.state.Get(i.object.Key)
	if o == nil || o.Meta.UID != i.object.Meta.UID {
		return nil
	}
	obj, err := resource.TreeOf(i.definition, i.definition.Storage, o)
	if err != nil {
		return err
	}
	spec, _ := obj["spec"].(map[string]any)
	if spec == nil {
		return nil
	}
	finalizers, _ := spec["finalizers"].([]any)
	spec["finalizers"] = slices.DeleteFunc(slices.Clone(finalizers), func(f any) bool { return f == string(corev1.FinalizerKubernetes) })
	return i.update(ctx, "finalize", obj)
}

func (i *item) update(ctx context.Context, subresource string, obj resource.Tree) error {
	data, err := object.AppendJSON(nil, obj)
	if err != nil {
		return err
	}
	_, err = i.store.Update(ctx, request(i.definition, i.object.Key, subresource, emptier), resource.Body{Data: data})
	return err
}
