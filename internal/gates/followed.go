package gates

// The gates that switch a part of the server.
const (
	Flagz                    = "ComponentFlagz"
	Statusz                  = "ComponentStatusz"
	ConstrainedImpersonation = "ConstrainedImpersonation"
	ManifestBasedAdmission   = "ManifestBasedAdmissionControlConfig"
	MutatingAdmissionPolicy  = "MutatingAdmissionPolicy"
	PodTopologyLabels        = "PodTopologyLabelsAdmission"
	UnsafeDelete             = "AllowUnsafeMalformedObjectDeletion"
	UpgradesNeedCreate       = "AuthorizePodWebsocketUpgradeCreatePermission"
	WebhooksExcludeReviews   = "ExcludeAdmissionWebhookVirtualResources"
)

// The gates that switch fields and rules of built-in kinds.
const (
	ClusterTrustBundleProjection            = "ClusterTrustBundleProjection"
	ContainerRestartRules                   = "ContainerRestartRules"
	CSIServiceAccountTokenSecrets           = "CSIServiceAccountTokenSecrets"
	DeploymentReplicaSetTerminatingReplicas = "DeploymentReplicaSetTerminatingReplicas"
	DRAConsumableCapacity                   = "DRAConsumableCapacity"
	DRADeviceBindingConditions              = "DRADeviceBindingConditions"
	DRADeviceTaints                         = "DRADeviceTaints"
	DRAExtendedResource                     = "DRAExtendedResource"
	DRAPartitionableDevices                 = "DRAPartitionableDevices"
	DRAStatusAuthorization                  = "DRAResourceClaimGranularStatusAuthorization"
	EnvFiles                                = "EnvFiles"
	HostnameOverride                        = "HostnameOverride"
	HPAConfigurableTolerance                = "HPAConfigurableTolerance"
	HPAGeneration                           = "HPAGeneration"
	HPAScaleToZero                          = "HPAScaleToZero"
	ImageVolume                             = "ImageVolume"
	InPlaceInitContainers                   = "InPlacePodVerticalScalingInitContainers"
	InPlacePodLevelResources                = "InPlacePodLevelResourcesVerticalScaling"
	KubeletInUserNamespace                  = "KubeletInUserNamespace"
	MaxUnavailableStatefulSet               = "MaxUnavailableStatefulSet"
	MutableCSINodeAllocatableCount          = "MutableCSINodeAllocatableCount"
	MutablePodResourcesOfJobs               = "MutablePodResourcesForSuspendedJobs"
	MutableSchedulingOfJobs                 = "MutableSchedulingDirectivesForSuspendedJobs"
	NodeDeclaredFeatures                    = "NodeDeclaredFeatures"
	PodCertificateRequest                   = "PodCertificateRequest"
	RelaxedServiceNameValidation            = "RelaxedServiceNameValidation"
	ResourceHealthStatus                    = "ResourceHealthStatus"
	ResourceHealthStatusMessage             = "ResourceHealthStatusMessage"
	RestartAllContainersOnContainerExits    = "RestartAllContainersOnContainerExits"
	SELinuxMount                            = "SELinuxMount"
	ServiceCIDRStatusFieldWiping            = "ServiceCIDRStatusFieldWiping"
	StrictIPCIDRValidation                  = "StrictIPCIDRValidation"
	VolumeLimitScaling                      = "VolumeLimitScaling"
)

// Followed returns the names of the gates whose values have an effect.
func Followed() []string {
	return []string{
		Flagz, Statusz, ConstrainedImpersonation, ManifestBasedAdmission, MutatingAdmissionPolicy, PodTopologyLabels, UnsafeDelete, UpgradesNeedCreate, WebhooksExcludeReviews,
		ClusterTrustBundleProjection, ContainerRestartRules, CSIServiceAccountTokenSecrets, DeploymentReplicaSetTerminatingReplicas,
		DRAConsumableCapacity, DRADeviceBindingConditions, DRADeviceTaints, DRAExtendedResource, DRAPartitionableDevices, DRAStatusAuthorization, EnvFiles,
		HostnameOverride, HPAConfigurableTolerance, HPAGeneration, HPAScaleToZero, ImageVolume, InPlaceInitContainers, InPlacePodLevelResources,
		KubeletInUserNamespace, MaxUnavailableStatefulSet, MutableCSINodeAllocatableCount, MutablePodResourcesOfJobs, MutableSchedulingOfJobs,
		NodeDeclaredFeatures, PodCertificateRequest, RelaxedServiceNameValidation, ResourceHealthStatus, ResourceHealthStatusMessage,
		RestartAllContainersOnContainerExits, SELinuxMount, ServiceCIDRStatusFieldWiping, StrictIPCIDRValidation, VolumeLimitScaling,
	}
}
