package pods

import (
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// Pods is the kind Pod.
func Pods(v1 schema.GroupVersion) kind.Row {
	return kind.Kind[*corev1.Pod]{
		Version:    v1,
		Plural:     "pods",
		Pods:       "spec",
		ShortNames: []string{"po"},
		Categories: []string{"all"},
		Defaults:   defaultPod,
		Validate:   validatePod,
		Status: &kind.Status[*corev1.Pod]{
			Validate: validatePodStatus,
			Keeps:    []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
			Prepare:  preparePodStatus,
		},
		Generation:    []string{"spec"},
		PrepareCreate: preparePod,
		PrepareUpdate: func(obj, old resource.Tree) {
			dropInitContainerAnnotations(obj)
			if kind.Get(obj, "spec", "resources") == nil && kind.Get(old, "spec", "resources") != nil {
				kind.Keep(obj, old, "spec", "resources") // clients that do not know the field leave it out
			}
		},
		Subresources: []kind.Subresource[*corev1.Pod]{
			{Subresource: resource.Subresource{Name: "binding", Prepare: func(_, _ resource.Tree) {}, Action: bindPod()}, Unvalidated: true},
			{Subresource: resource.Subresource{Name: "eviction", Action: evictPod()}},
			{Subresource: ephemeralContainers(), Validate: validatePodEphemeralContainers},
			{Subresource: resize(), Validate: validatePodResize},
		},
		Connections: connections(v1),
		Table:       podsTable(),
		Selectable: []kind.Selectable{
			kind.At("spec.nodeName"),
			{Label: "spec.host", Reads: []string{"spec.nodeName"}, Value: kind.At("spec.nodeName").Value}, // the field's former name
			kind.At("spec.restartPolicy"),
			kind.At("spec.schedulerName"),
			kind.At("spec.serviceAccountName"),
			{Label: "spec.hostNetwork", Value: func(obj resource.Tree) string {
				host, _ := kind.Get(obj, "spec", "hostNetwork").(bool)
				return strconv.FormatBool(host)
			}},
			kind.At("status.phase"),
			kind.At("status.podIP"),
			{Label: "status.podIPs", Value: func(resource.Tree) string { return "" }}, // Kubernetes accepts the label and never sets it
			kind.At("status.nominatedNodeName"),
		},
		Strategy: resource.Strategy{
			Warnings: warnOfPod,
		},
		Deletion: resource.Deletion{
			Grace:         Grace,
			ReturnsObject: true,
		},
	}.Row()
}

// preparePod resets the status of a new pod.
func preparePod(obj resource.Tree) {
	completePod(obj)
	status := resource.Tree{"phase": string(corev1.PodPending)}
	obj["status"] = status
	dropInitContainerAnnotations(obj)
	spec, _ := obj["spec"].(resource.Tree)
	if gates, _ := spec["schedulingGates"].([]any); len(gates) > 0 {
		status["conditions"] = []any{resource.Tree{
			"type":               string(corev1.PodScheduled),
			"status":             string(corev1.ConditionFalse),
			"reason":             corev1.PodReasonSchedulingGated,
			"message":            "Scheduling is blocked due to non-empty scheduling gates",
			"lastProbeTime":      nil,
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}
	}
	status["qosClass"] = string(QOSClass(kind.Decoded[corev1.PodSpec](spec)))
}

// preparePodStatus restores fields that old kubelets and other clients leave out because they do
// not know them.
func preparePodStatus(obj, old resource.Tree) {
	status, _ := obj["status"].(resource.Tree)
	before, _ := old["status"].(resource.Tree)
	for _, name := range []string{
		"qosClass", "observedGeneration", "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses",
	} {
		if value := status[name]; (value == nil || value == "" || value == int64(0)) && before[name] != nil {
			kind.Keep(obj, old, "status", name)
		}
	}
	for _, name := range []string{"nodeAllocatableResourceClaimStatuses", "volumeHealth"} { // of features that are off by default
		kind.DropUnlessSet(obj, old, "status", name)
	}
	generations := map[string][]any{}
	conditions, _ := before["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(resource.Tree)
		generations[kind.Text(c, "type")] = append(generations[kind.Text(c, "type")], c["observedGeneration"])
	}
	conditions, _ = status["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(resource.Tree)
		known := generations[kind.Text(c, "type")]
		if len(known) == 0 {
			continue
		}
		if c["observedGeneration"] == nil && known[0] != nil {
			c["observedGeneration"] = known[0]
		}
		generations[kind.Text(c, "type")] = known[1:]
	}
}

// dropInitContainerAnnotations removes the annotations in which old kubelets found init containers.
func dropInitContainerAnnotations(pod resource.Tree) {
	annotations, _ := kind.Get(pod, "metadata", "annotations").(resource.Tree)
	for _, prefix := range []string{"pod.alpha.kubernetes.io/", "pod.beta.kubernetes.io/"} {
		delete(annotations, prefix+"init-containers")
		delete(annotations, prefix+"init-container-statuses")
	}
}

// Grace returns the grace period of a pod in seconds: the requested one, or else that of the spec.
// Pods that are not bound or have ended get 0, as no kubelet has to stop them.
func Grace(obj resource.Tree, asked *int64) int64 {
	phase := corev1.PodPhase(kind.Text(obj, "status", "phase"))
	if kind.Text(obj, "spec", "nodeName") == "" || phase == corev1.PodFailed || phase == corev1.PodSucceeded {
		return 0
	}
	seconds, _ := kind.Get(obj, "spec", "terminationGracePeriodSeconds").(int64)
	if asked != nil {
		seconds = *asked
	}
	if seconds < 0 {
		return 1
	}
	return seconds
}

// WarnOfHostname warns, on create, of names that are not valid host names.
func WarnOfHostname(use string) func(obj, old resource.Tree) []string {
	return func(obj, old resource.Tree) []string {
		if old != nil {
			return nil
		}
		problems := kvalidation.IsDNS1123Label(kind.Text(obj, "metadata", "name"))
		if len(problems) == 0 {
			return nil
		}
		return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", use, problems)}
	}
}
