package podstatus

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Patch returns the strategic merge patch from the status of a pod to another one; nil if they
// are equal. It is a conflict if the pod is not the one that was read, or has changed. It has
// the fields that a kubelet owns, and of the conditions those that differ.
func Patch(p *corev1.Pod, now *corev1.PodStatus) ([]byte, error) {
	old := &p.Status
	status := map[string]any{}
	differ(status, "phase", old.Phase, now.Phase)
	differ(status, "reason", old.Reason, now.Reason)
	differ(status, "message", old.Message, now.Message)
	differ(status, "hostIP", old.HostIP, now.HostIP)
	differ(status, "podIP", old.PodIP, now.PodIP)
	differ(status, "observedGeneration", old.ObservedGeneration, now.ObservedGeneration)
	if !old.StartTime.Equal(now.StartTime) {
		status["startTime"] = now.StartTime
	}
	addresses(status, "hostIPs", old.HostIPs, now.HostIPs, func(a corev1.HostIP) string { return a.IP })
	addresses(status, "podIPs", old.PodIPs, now.PodIPs, func(a corev1.PodIP) string { return a.IP })
	unlike(status, "initContainerStatuses", old.InitContainerStatuses, now.InitContainerStatuses)
	unlike(status, "containerStatuses", old.ContainerStatuses, now.ContainerStatuses)
	unlike(status, "ephemeralContainerStatuses", old.EphemeralContainerStatuses, now.EphemeralContainerStatuses)
	if !equality.Semantic.DeepEqual(old.AllocatedResources, now.AllocatedResources) {
		status["allocatedResources"] = replaced(now.AllocatedResources)
	}
	if !equality.Semantic.DeepEqual(old.Resources, now.Resources) {
		status["resources"] = replacedResources(now.Resources)
	}
	if conditions, order := conditionsPatch(old.Conditions, now.Conditions); len(conditions) > 0 {
		status["conditions"], status["$setElementOrder/conditions"] = conditions, order
	}
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion},
		"status":   status,
	})
}

// differ sets a field whose value has changed; the zero value removes it.
func differ[T comparable](status map[string]any, field string, old, now T) {
	var zero T
	switch now {
	case old:
	case zero:
		status[field] = nil
	default:
		status[field] = now
	}
}

// unlike sets a list that has changed.
func unlike[T any](status map[string]any, field string, old, now []T) {
	if !equality.Semantic.DeepEqual(old, now) {
		status[field] = now
	}
}

// addresses sets a list of addresses that has changed. A strategic merge would keep the old ones,
// whose keys they are.
func addresses[T comparable](status map[string]any, field string, old, now []T, ip func(T) string) {
	if slices.Equal(old, now) {
		return
	}
	var list []any
	for _, a := range old {
		if !slices.Contains(now, a) {
			list = append(list, map[string]any{"$patch": "delete", "ip": ip(a)})
		}
	}
	for _, a := range now {
		list = append(list, a)
	}
	status[field] = list
}

// replaced is a map that takes the place of the one that is there.
func replaced(l corev1.ResourceList) any {
	if len(l) == 0 {
		return nil
	}
	m := map[string]any{"$patch": "replace"}
	for name, q := range l {
		m[string(name)] = q
	}
	return m
}

func replacedResources(r *corev1.ResourceRequirements) any {
	if r == nil {
		return nil
	}
	return map[string]any{"requests": replaced(r.Requests), "limits": replaced(r.Limits)}
}

// conditionsPatch returns the conditions that have changed, the removal of those that are gone, and
// the order of all.
func conditionsPatch(old, now []corev1.PodCondition) (changes, order []any) {
	for _, was := range old {
		if byKubelet(was.Type) && !hasCondition(now, was.Type) {
			changes = append(changes, map[string]any{"$patch": "delete", "type": was.Type})
		}
	}
	for i := range now {
		c := &now[i]
		order = append(order, map[string]any{"type": c.Type})
		if !byKubelet(c.Type) {
			continue
		}
		var was *corev1.PodCondition
		for j := range old {
			if old[j].Type == c.Type {
				was = &old[j]
			}
		}
		if was == nil {
			changes = append(changes, c)
		} else if !equality.Semantic.DeepEqual(was, c) {
			changes = append(changes, changedCondition(c))
		}
	}
	return changes, order
}

// changedCondition sets all fields of a condition that is there.
func changedCondition(c *corev1.PodCondition) any {
	m := map[string]any{
		"type": c.Type, "status": c.Status, "lastTransitionTime": c.LastTransitionTime, "observedGeneration": c.ObservedGeneration,
		"reason": c.Reason, "message": c.Message,
	}
	for _, field := range []string{"reason", "message"} {
		if m[field] == "" {
			m[field] = nil
		}
	}
	if !c.LastProbeTime.IsZero() {
		m["lastProbeTime"] = c.LastProbeTime
	}
	return m
}

func hasCondition(all []corev1.PodCondition, of corev1.PodConditionType) bool {
	for i := range all {
		if all[i].Type == of {
			return true
		}
	}
	return false
}
