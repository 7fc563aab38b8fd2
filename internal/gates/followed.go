package gates

// The gates that switch a part of the server.
const (
	Flagz                   = "ComponentFlagz"
	Statusz                 = "ComponentStatusz"
	ManifestBasedAdmission  = "ManifestBasedAdmissionControlConfig"
	MutatingAdmissionPolicy = "MutatingAdmissionPolicy"
	PodTopologyLabels       = "PodTopologyLabelsAdmission"
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
	EnvFiles                                = "EnvFiles"
	HostnameOverride                        = "HostnameOverride"
	HPAConfigurableTolerance                = "HPAConfigurableTolerance"
	HPAGeneration                           = "HPAGeneration"
	HPAScaleToZero                          = "HPAScaleToZero"
	ImageVolume                             = "ImageVolume"
	InPlacePodLevelResources                = "InPlacePodLevelResourcesVerticalScaling"
	KubeletInUserNamespace                  = "KubeletInUserNamespace"
	MaxUnavailableStatefulSet               = "MaxUnavailableStatefulSet"
	MutableCSINodeAllocatableCount          = "MutableCSINodeAllocatableCount"
	NodeDeclaredFeatures                    = "NodeDeclaredFeatures"
	PodCertificateRequest                   = "PodCertificateRequest"
	RelaxedServiceNameValidation            = "RelaxedServiceNameValidation"
	ResourceHealthStatus                    = "ResourceHealthStatus"
	ResourceHealthStatusMessage             = "ResourceHealthStatusMessage"
	RestartAllContainersOnContainerExits    = "RestartAllContainersOnContainerExits"
	VolumeLimitScaling                      = "VolumeLimitScaling"
)

// Followed returns the names of the gates whose values have an effect.
func Followed() []string {
	return []string{
		Flagz, Statusz, ManifestBasedAdmission, MutatingAdmissionPolicy, PodTopologyLabels,
		ClusterTrustBundleProjection, ContainerRestartRules, CSIServiceAccountTokenSecrets, DeploymentReplicaSetTerminatingReplicas,
		DRAConsumableCapacity, DRADeviceBindingConditions, DRADeviceTaints, DRAExtendedResource, DRAPartitionableDevices, EnvFiles,
		HostnameOverride, HPAConfigurableTolerance, HPAGeneration, HPAScaleToZero, ImageVolume, InPlacePodLevelResources,
		KubeletInUserNamespace, MaxUnavailableStatefulSet, MutableCSINodeAllocatableCount, NodeDeclaredFeatures, PodCertificateRequest,
		RelaxedServiceNameValidation, ResourceHealthStatus, ResourceHealthStatusMessage, RestartAllContainersOnContainerExits, VolumeLimitScaling,
	}
}
