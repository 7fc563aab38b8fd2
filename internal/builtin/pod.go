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
)

func pods(v1 schema.GroupVersion) row {
	return kind[corev1.Pod]{
		version:    v1,
		plural:     "pods",
		shortNames: []string{"po"},
		categories: []string{"all"},
		defaults:   defaults.Pod,
		validate:   validation.Pod,
		status: &status[corev1.Pod]{
			validate: validation.PodStatus,
			keeps:    []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
			prepare: func(obj, old resource.Tree) {
				if text(obj, "status", "qosClass") == "" { // old kubelets do not know it
					keep(obj, old, "status", "qosClass")
				}
			},
		},
		generation:    []string{"spec"},
		prepareCreate: preparePod,
		table:         tables.Pods(),
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
			Warnings:            warnOfHostname("the Pod's hostname"),
		},
	}.row()
}

// preparePod says that nothing has happened to the pod yet.
func preparePod(obj resource.Tree) {
	status := resource.Tree{"phase": string(corev1.PodPending)}
	obj["status"] = status
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
	status["qosClass"] = string(qosOf(decoded[corev1.PodSpec](spec)))
}

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

// qosOf is the quality of service that the resources of a pod amount to.
func qosOf(spec *corev1.PodSpec) corev1.PodQOSClass {
	if spec.Resources != nil && len(spec.Resources.Requests)+len(spec.Resources.Limits) > 0 {
		return qosOfResources(spec.Resources)
	}
	class := corev1.PodQOSClass("")
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			class = worse(class, qosOfResources(&containers[i].Resources))
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

// qosOfResources is Guaranteed if cpu and memory are limited and requested alike,
// BestEffort if neither is mentioned, and else Burstable.
func qosOfResources(r *corev1.ResourceRequirements) corev1.PodQOSClass {
	class := corev1.PodQOSClass("")
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		switch {
		case !request.Equal(limit):
			return corev1.PodQOSBurstable
		case request.IsZero():
			class = worse(class, corev1.PodQOSBestEffort)
		default:
			class = worse(class, corev1.PodQOSGuaranteed)
		}
	}
	return class
}

// worse joins the classes of two parts of a pod.
func worse(a, b corev1.PodQOSClass) corev1.PodQOSClass {
	if a == "" || a == b {
		return b
	}
	return corev1.PodQOSBurstable
}
