package pods

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Bindings is a resource without stored objects: creating a Binding binds the pod of the same name.
// It is the legacy form; schedulers create pods/binding.
func Bindings(v1 schema.GroupVersion) kind.Row {
	bind := bindPod()
	return kind.Row{Fixed: &resource.Definition{
		Group: v1.Group, Plural: "bindings", Singular: "binding", Kind: "Binding", ListKind: "BindingList", Namespaced: true,
		Versions: []*resource.Version{{Name: v1.Version, Model: bind.Model}},
		Action:   bind,
	}}
}

// bindPod binds a pod to a node.
func bindPod() *resource.Action {
	return kind.Action(corev1.SchemeGroupVersion.WithKind("Binding"), nil, func(ctx context.Context, s *resource.Store, r *resource.Request, binding *corev1.Binding) (resource.Result, error) {
		switch {
		case r.Subresource != "" && binding.Name != r.Name:
			return resource.Result{}, apierrors.NewBadRequest("name in URL does not match name in Binding object")
		case binding.Name == "":
			return resource.Result{}, apierrors.NewBadRequest("Name parameter required.")
		}
		if problems := validateBinding(binding); len(problems) > 0 {
			return resource.Result{}, problems.ToAggregate()
		}
		pod, err := aboutPod(s, r, binding.Name, "binding")
		if err != nil {
			return resource.Result{}, err
		}
		_, err = s.Edit(ctx, pod, func(live resource.Tree) error {
			if err := bindable(pod, binding, live); err != nil {
				return err
			}
			assign(live, binding)
			return nil
		})
		if err != nil {
			return resource.Result{}, err
		}
		return succeeded(http.StatusCreated), nil
	})
}

// aboutPod returns a request about a pod without a field manager, so that its write owns no fields.
func aboutPod(s *resource.Store, r *resource.Request, name, subresource string) (*resource.Request, error) {
	d := s.Registry().Load().Resource(schema.GroupResource{Resource: "pods"})
	if d == nil {
		return nil, apierrors.NewInternalError(errors.New("pods are not served"))
	}
	return &resource.Request{
		Definition: d, Version: d.Storage, Namespace: r.Namespace, Name: name, Subresource: subresource,
		FieldValidation: metav1.FieldValidationIgnore, DryRun: r.DryRun, Warn: r.Warn,
	}, nil
}

// succeeded returns the Status with which an action succeeds.
func succeeded(code int32) resource.Result {
	return resource.Result{Status: &metav1.Status{Status: metav1.StatusSuccess, Code: code}}
}

// bindable returns an error for a pod that cannot be bound. If the binding names a uid or
// resourceVersion, the pod must have them.
func bindable(r *resource.Request, binding *corev1.Binding, pod resource.Tree) error {
	gr := r.GroupResource()
	failed := ""
	uid, version := kind.Text(pod, "metadata", "uid"), kind.Text(pod, "metadata", "resourceVersion")
	switch {
	case binding.UID != "" && string(binding.UID) != uid:
		failed = fmt.Sprintf("UID in precondition: %v, UID in object meta: %v", binding.UID, uid)
	case binding.ResourceVersion != "" && binding.ResourceVersion != version:
		failed = fmt.Sprintf("ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", binding.ResourceVersion, version)
	}
	if failed != "" {
		return apierrors.NewConflict(gr, r.Name, fmt.Errorf(
			"StorageError: invalid object, Code: 4, Key: /registry%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s", r.Key().Under(r.Definition.StoredAt), failed))
	}
	var err error
	gates, _ := kind.Get(pod, "spec", "schedulingGates").([]any)
	switch node := kind.Text(pod, "spec", "nodeName"); {
	case kind.Text(pod, "metadata", "deletionTimestamp") != "":
		err = fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", r.Name)
	case node != "":
		err = fmt.Errorf("pod %s is already assigned to node %q", r.Name, node)
	case len(gates) > 0:
		err = fmt.Errorf("pod %s has non-empty .spec.schedulingGates", r.Name)
	default:
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: gr.Group, Resource: gr.Resource + "/binding"}, r.Name, err)
}

// assign writes a binding into its pod: the node, and the scheduler's labels and annotations.
func assign(pod resource.Tree, binding *corev1.Binding) {
	kind.Put(pod, binding.Target.Name, "spec", "nodeName")
	kind.Drop(pod, "status", "nominatedNodeName")
	for key, value := range binding.Annotations {
		kind.Put(pod, value, "metadata", "annotations", key)
	}
	dropInitContainerAnnotations(pod)
	for key, value := range binding.Labels {
		kind.Put(pod, value, "metadata", "labels", key)
	}
	setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, time.Now())
}

// setPodCondition adds a condition, or replaces the one of its type. The transition time is kept if
// the status is the same.
func setPodCondition(pod resource.Tree, condition corev1.PodCondition, now time.Time) {
	fresh := resource.Tree{
		"type":               string(condition.Type),
		"status":             string(condition.Status),
		"lastProbeTime":      nil,
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
	for name, value := range map[string]string{"reason": condition.Reason, "message": condition.Message} {
		if value != "" {
			fresh[name] = value
		}
	}
	conditions, _ := kind.Get(pod, "status", "conditions").([]any)
	for i, c := range conditions {
		old, _ := c.(resource.Tree)
		if kind.Text(old, "type") != string(condition.Type) {
			continue
		}
		if kind.Text(old, "status") == string(condition.Status) {
			fresh["lastTransitionTime"] = old["lastTransitionTime"]
		}
		conditions[i] = fresh
		return
	}
	kind.Put(pod, append(conditions, fresh), "status", "conditions")
}
