package builtin

import (
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func pods(v1 schema.GroupVersion) row {
	return kind[corev1.Pod]{
		version:    v1,
		plural:     "pods",
		pods:       "spec",
		shortNames: []string{"po"},
		absent:     inRunningPods(),
		categories: []string{"all"},
		defaults:   defaults.Pod,
		validate:   validation.Pod,
		status: &status[corev1.Pod]{
			validate: validation.PodStatus,
			keeps:    []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
			prepare:  preparePodStatus,
		},
		generation:    []string{"spec"},
		prepareCreate: preparePod,
		prepareUpdate: func(obj, old resource.Tree) {
			dropInitContainerAnnotations(obj)
			if get(obj, "spec", "resources") == nil && get(old, "spec", "resources") != nil {
				keep(obj, old, "spec", "resources") // from clients that do not know it
			}
		},
		subresources: []subresource[corev1.Pod]{
			{Subresource: resource.Subresource{Name: "binding", Prepare: func(_, _ resource.Tree) {}, Action: bindPod()}, validate: nothingToValidate},
			{Subresource: resource.Subresource{Name: "eviction", Action: evictPod()}},
			{Subresource: ephemeralContainers(), validate: validation.PodEphemeralContainers},
			{Subresource: resize(), validate: validation.PodResize},
		},
		table: tables.Pods(),
		selectable: []selectable{
			at("spec.nodeName"),
			{"spec.host", at("spec.nodeName").value}, // what the field was called long ago
			at("spec.restartPolicy"),
			at("spec.schedulerName"),
			at("spec.serviceAccountName"),
			{"spec.hostNetwork", func(obj resource.Tree) string {
				host, _ := get(obj, "spec", "hostNetwork").(bool)
				return strconv.FormatBool(host)
			}},
			at("status.phase"),
			at("status.podIP"),
			{"status.podIPs", func(resource.Tree) string { return "" }}, // accepted by Kubernetes, and never set
			at("status.nominatedNodeName"),
		},
		hooks: resource.Hooks{
			Grace:               podGrace,
			DeleteReturnsObject: true,
			Warnings:            warnOfPod,
			Claim:               locateNew,
		},
	}.row()
}

// inRunningPods is what there is of pods that run.
func inRunningPods() map[string]string {
	absent := map[string]string{}
	for _, name := range []string{"attach", "exec", "log", "portforward", "proxy"} {
		absent[name] = "the pod does not run: it is an object, and there are no nodes here"
	}
	return absent
}

// preparePod says that nothing has happened to the pod yet.
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
	status["qosClass"] = string(validation.QOSClass(decoded[corev1.PodSpec](spec)))
}

// preparePodStatus puts back what old kubelets and other clients leave out because
// they do not know it.
func preparePodStatus(obj, old resource.Tree) {
	status, _ := obj["status"].(resource.Tree)
	before, _ := old["status"].(resource.Tree)
	for _, name := range []string{
		"qosClass", "observedGeneration", "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses",
	} {
		if value := status[name]; (value == nil || value == "" || value == int64(0)) && before[name] != nil {
			keep(obj, old, "status", name)
		}
	}
	generations := map[string][]any{}
	conditions, _ := before["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(resource.Tree)
		generations[text(c, "type")] = append(generations[text(c, "type")], c["observedGeneration"])
	}
	conditions, _ = status["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(resource.Tree)
		known := generations[text(c, "type")]
		if len(known) == 0 {
			continue
		}
		if c["observedGeneration"] == nil && known[0] != nil {
			c["observedGeneration"] = known[0]
		}
		generations[text(c, "type")] = known[1:]
	}
}

// dropInitContainerAnnotations removes what old kubelets took for init containers.
func dropInitContainerAnnotations(pod resource.Tree) {
	annotations, _ := get(pod, "metadata", "annotations").(resource.Tree)
	for _, prefix := range []string{"pod.alpha.kubernetes.io/", "pod.beta.kubernetes.io/"} {
		delete(annotations, prefix+"init-containers")
		delete(annotations, prefix+"init-container-statuses")
	}
}

// nothingToValidate is for writes that the server makes by itself.
func nothingToValidate(_, _ *corev1.Pod) field.ErrorList { return nil }

// podGrace is 0 where no kubelet has anything to end, and the grace period that
// the pod asks for elsewhere.
func podGrace(obj resource.Tree) int64 {
	phase := corev1.PodPhase(text(obj, "status", "phase"))
	if text(obj, "spec", "nodeName") == "" || phase == corev1.PodFailed || phase == corev1.PodSucceeded {
		return 0
	}
	seconds, _ := get(obj, "spec", "terminationGracePeriodSeconds").(int64)
	if seconds < 0 {
		return 1
	}
	return seconds
}

// warnOfHostname warns, on create, of names that make bad host names.
func warnOfHostname(use string) func(obj, old resource.Tree) []string {
	return func(obj, old resource.Tree) []string {
		if old != nil {
			return nil
		}
		problems := kvalidation.IsDNS1123Label(text(obj, "metadata", "name"))
		if len(problems) == 0 {
			return nil
		}
		return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", use, problems)}
	}
}
