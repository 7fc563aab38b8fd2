package kinds

import (
	"github.com/kapok-dev/kapok/internal/gates"
)

// A feature has fields that objects lose while its gate is off, unless the stored object has one of
// them.
type feature struct {
	gate     string
	resource string // RESOURCE.GROUP as in schema.GroupResource; podSpecs for all kinds with a pod spec
	// only limits the feature to writes of the object, or of a subresource; "" for neither.
	only part
	// fields are dotted paths. [] stands for all elements of a list, {} for all values of a map. They
	// begin at the root of the object, or at its pod spec.
	fields []string
}

// A part of an object is written through a path of its own.
type part string

const (
	mainPart   part = "main"
	statusPart part = "status"
	resizePart part = "resize"
)

// podSpecs stands for all resources with a pod spec.
const podSpecs = "*"

// podSpecPaths returns where the pod specs of built-in kinds are.
func podSpecPaths() map[string]string {
	return map[string]string{
		"pods": "spec", "podtemplates": "template.spec", "replicationcontrollers": "spec.template.spec",
		"deployments.apps": "spec.template.spec", "replicasets.apps": "spec.template.spec", "statefulsets.apps": "spec.template.spec",
		"daemonsets.apps": "spec.template.spec", "jobs.batch": "spec.template.spec", "cronjobs.batch": "spec.jobTemplate.spec.template.spec",
	}
}

// features returns the features whose gates are followed and that have fields of their own.
func features() []feature {
	return []feature{
		{gate: gates.ClusterTrustBundleProjection, resource: podSpecs, fields: []string{"volumes[].projected.sources[].clusterTrustBundle"}},
		{gate: gates.PodCertificateRequest, resource: podSpecs, fields: []string{"volumes[].projected.sources[].podCertificate"}},
		{gate: gates.EnvFiles, resource: podSpecs, fields: ofContainers("env[].valueFrom.fileKeyRef")},
		{gate: gates.HostnameOverride, resource: podSpecs, fields: []string{"hostnameOverride"}},
		{gate: gates.InPlacePodLevelResources, resource: "pods", fields: []string{"status.resources", "status.allocatedResources"}},
		{gate: gates.InPlacePodLevelResources, resource: "pods", only: resizePart, fields: []string{"spec.resources"}},
		{gate: gates.DRAExtendedResource, resource: "pods", fields: []string{"status.extendedResourceClaimStatus"}},
		{gate: gates.DRAExtendedResource, resource: "deviceclasses.resource.k8s.io", fields: []string{"spec.extendedResourceName"}},
		{gate: gates.ResourceHealthStatus, resource: "pods", fields: ofStatuses("allocatedResourcesStatus")},
		{gate: gates.ResourceHealthStatusMessage, resource: "pods", fields: ofStatuses("allocatedResourcesStatus[].resources[].message")},
		{gate: gates.NodeDeclaredFeatures, resource: "nodes", only: mainPart, fields: []string{"status.declaredFeatures"}},
		{gate: gates.KubeletInUserNamespace, resource: "nodes", only: statusPart, fields: []string{"status.nodeInfo.runningInUserNamespace"}},
		{gate: gates.DeploymentReplicaSetTerminatingReplicas, resource: "deployments.apps", fields: []string{"status.terminatingReplicas"}},
		{gate: gates.DeploymentReplicaSetTerminatingReplicas, resource: "replicasets.apps", fields: []string{"status.terminatingReplicas"}},
		{gate: gates.MaxUnavailableStatefulSet, resource: "statefulsets.apps", fields: []string{"spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		{gate: gates.HPAConfigurableTolerance, resource: "horizontalpodautoscalers.autoscaling", fields: []string{"spec.behavior.scaleUp.tolerance", "spec.behavior.scaleDown.tolerance"}},
		{gate: gates.MutableCSINodeAllocatableCount, resource: "csidrivers.storage.k8s.io", fields: []string{"spec.nodeAllocatableUpdatePeriodSeconds"}},
		{gate: gates.MutableCSINodeAllocatableCount, resource: "volumeattachments.storage.k8s.io", only: statusPart, fields: []string{"status.attachError.errorCode"}},
		{gate: gates.MutableCSINodeAllocatableCount, resource: "volumeattachments.storage.k8s.io", only: statusPart, fields: []string{"status.detachError.errorCode"}},
		{gate: gates.CSIServiceAccountTokenSecrets, resource: "csidrivers.storage.k8s.io", fields: []string{"spec.serviceAccountTokenInSecrets"}},
		{gate: gates.VolumeLimitScaling, resource: "csidrivers.storage.k8s.io", fields: []string{"spec.preventPodSchedulingIfMissing"}},
		{gate: gates.DRADeviceTaints, resource: "resourceslices.resource.k8s.io", fields: []string{"spec.devices[].taints"}},
		{gate: gates.DRADeviceTaints, resource: "resourceclaims.resource.k8s.io", fields: ofRequests("spec", "tolerations")},
		{gate: gates.DRADeviceTaints, resource: "resourceclaimtemplates.resource.k8s.io", fields: ofRequests("spec.spec", "tolerations")},
		{gate: gates.DRAPartitionableDevices, resource: "resourceslices.resource.k8s.io", fields: []string{
			"spec.sharedCounters", "spec.perDeviceNodeSelection",
			"spec.devices[].consumesCounters", "spec.devices[].nodeName", "spec.devices[].nodeSelector", "spec.devices[].allNodes",
		}},
		{gate: gates.DRADeviceBindingConditions, resource: "resourceslices.resource.k8s.io", fields: []string{
			"spec.devices[].bindingConditions", "spec.devices[].bindingFailureConditions", "spec.devices[].bindsToNode",
		}},
		{gate: gates.DRADeviceBindingConditions, resource: "resourceclaims.resource.k8s.io", fields: []string{
			"status.allocation.devices.results[].bindingConditions", "status.allocation.devices.results[].bindingFailureConditions",
		}},
		{gate: gates.DRAConsumableCapacity, resource: "resourceslices.resource.k8s.io", fields: []string{
			"spec.devices[].allowMultipleAllocations", "spec.devices[].capacity{}.requestPolicy",
		}},
		{gate: gates.DRAConsumableCapacity, resource: "resourceclaims.resource.k8s.io", fields: append(
			ofRequests("spec", "capacity"), "spec.devices.constraints[].distinctAttribute",
			"status.allocation.devices.results[].shareID", "status.allocation.devices.results[].consumedCapacity", "status.devices[].shareID",
		)},
		{gate: gates.DRAConsumableCapacity, resource: "resourceclaimtemplates.resource.k8s.io", fields: append(
			ofRequests("spec.spec", "capacity"), "spec.spec.devices.constraints[].distinctAttribute",
		)},
	}
}

// ofContainers returns the paths of a field of all containers of a pod spec.
func ofContainers(field string) []string {
	return []string{"initContainers[]." + field, "containers[]." + field, "ephemeralContainers[]." + field}
}

// ofStatuses returns the paths of a field of the statuses of all containers of a pod.
func ofStatuses(field string) []string {
	return []string{"status.initContainerStatuses[]." + field, "status.containerStatuses[]." + field, "status.ephemeralContainerStatuses[]." + field}
}

// ofRequests returns the paths of a field of all requests of a claim for devices.
func ofRequests(spec, field string) []string {
	return []string{spec + ".devices.requests[].exactly." + field, spec + ".devices.requests[].firstAvailable[]." + field}
}
