// Package limits is Kubernetes' plugin LimitRanger: the LimitRanges of a namespace set default
// requests and limits of containers, and bound those of containers, pods and
// PersistentVolumeClaims.
//
// The pod's annotation kubernetes.io/limit-ranger lists the defaults that were set. Several
// LimitRanges apply in the order of their names, and all of them must be satisfied.
//
// The package starts no goroutine and has no locks.
package limits

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Name is the name of the plugin.
const Name = "LimitRanger"

const annotation = "kubernetes.io/limit-ranger"

var ranges = schema.GroupResource{Resource: "limitranges"}

// A Plugin implements admission.Mutator and admission.Validator over the LimitRanges of a state,
// which it decodes once. It is safe for concurrent use.
type Plugin struct{ ranges *state.Derived[*index] }

// New returns a Plugin.
func New(st *state.State) *Plugin { return &Plugin{state.Derive(st, fold, ranges)} }

// Handles implements admission.Plugin. After creation, only a resize changes the resources of a
// pod.
func (p *Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	if r.Definition.Group != "" || op != resource.OperationCreate && op != resource.OperationUpdate {
		return false
	}
	switch r.Definition.Plural {
	case "pods":
		if !(r.Subresource == "" && op == resource.OperationCreate || r.Subresource == "resize" && op == resource.OperationUpdate) {
			return false
		}
	case "persistentvolumeclaims":
		if r.Subresource != "" {
			return false
		}
	default:
		return false
	}
	return p.ranges.Load().namespaces.Len() > 0
}

// Mutate implements admission.Mutator.
func (p *Plugin) Mutate(_ context.Context, a *resource.Admitted) error {
	if a.Request.Definition.Plural != "pods" {
		return nil
	}
	return p.each(a, func(limits *corev1.LimitRange) error {
		fill(a.Object, limits)
		return nil
	})
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(_ context.Context, a *resource.Admitted) error {
	if a.Request.Definition.Plural == "pods" {
		pod, err := admission.Decode[corev1.Pod](a.Object)
		if err != nil {
			return err
		}
		return p.each(a, func(limits *corev1.LimitRange) error { return judgePod(limits, pod) })
	}
	claim, err := admission.Decode[corev1.PersistentVolumeClaim](a.Object)
	if err != nil {
		return err
	}
	return p.each(a, func(limits *corev1.LimitRange) error { return judgeClaim(limits, claim) })
}

// each calls do with each LimitRange of the namespace, until one returns an error.
func (p *Plugin) each(a *resource.Admitted, do func(*corev1.LimitRange) error) error {
	if metadata, _ := a.Old["metadata"].(map[string]any); metadata["deletionTimestamp"] != nil {
		return nil
	}
	for _, l := range p.ranges.Load().of(a.Request.Namespace) {
		if l.err != nil {
			return l.err
		}
		if err := do(l.limits); err != nil {
			return admission.Forbidden(a, err)
		}
	}
	return nil
}

// fill sets the defaults of a pod's containers.
func fill(pod resource.Tree, limits *corev1.LimitRange) {
	requests, most := corev1.ResourceList{}, corev1.ResourceList{}
	for _, limit := range limits.Spec.Limits {
		if limit.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, limit.DefaultRequest)
			maps.Copy(most, limit.Default)
		}
	}
	var notes []string
	for _, kind := range []struct{ key, called string }{{"containers", "container"}, {"initContainers", "init container"}} {
		spec, _ := pod["spec"].(map[string]any)
		containers, _ := spec[kind.key].([]any)
		for _, item := range containers {
			container, _ := item.(map[string]any)
			if container == nil {
				continue
			}
			for _, part := range []struct {
				key, called string
				values      corev1.ResourceList
			}{{"requests", "request", requests}, {"limits", "limit", most}} {
				if set := fillIn(container, part.key, part.values); len(set) > 0 {
					notes = append(notes, fmt.Sprintf("%s %s for %s %v", strings.Join(set, ", "), part.called, kind.called, container["name"]))
				}
			}
		}
	}
	if len(notes) > 0 {
		admission.Child(admission.Child(pod, "metadata"), "annotations")[annotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
	}
}

// fillIn sets the absent requests or limits of a container, and returns the sorted names of those
// it set.
func fillIn(container resource.Tree, key string, values corev1.ResourceList) (set []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		resources, _ := container["resources"].(map[string]any)
		if list, _ := resources[key].(map[string]any); list[string(name)] != nil {
			continue
		}
		value := values[name]
		admission.Child(admission.Child(container, "resources"), key)[string(name)] = value.String()
		set = append(set, string(name))
	}
	return set
}

func judgeClaim(limits *corev1.LimitRange, claim *corev1.PersistentVolumeClaim) error {
	var errs []error
	for _, limit := range limits.Spec.Limits {
		if limit.Type == corev1.LimitTypePersistentVolumeClaim {
			u := use{kind: limit.Type, requests: claim.Spec.Resources.Requests}
			errs = append(errs, u.atLeast(limit.Min)...)
			errs = append(errs, u.asks(limit.Max)...)
		}
	}
	return causes.Errors(errs)
}

func judgePod(limits *corev1.LimitRange, pod *corev1.Pod) error {
	var errs []error
	for _, limit := range limits.Spec.Limits {
		switch limit.Type {
		case corev1.LimitTypeContainer:
			for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
				errs = append(errs, use{limit.Type, c.Resources.Requests, c.Resources.Limits}.judge(&limit)...)
			}
		case corev1.LimitTypePod:
			errs = append(errs, ofPod(pod).judge(&limit)...)
		}
	}
	return causes.Errors(errs)
}
