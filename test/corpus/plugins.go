package corpus

// OptionalPlugins are the admission plugins that are on for the scripts in testdata/plugins, in
// addition to those that are on by default.
var OptionalPlugins = []string{
	"AlwaysPullImages", "DenyServiceExternalIPs", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology",
	"NamespaceAutoProvision", "PodNodeSelector", "PodTolerationRestriction",
}

// OptionalConfiguration is their AdmissionConfiguration.
const OptionalConfiguration = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodNodeSelector
  configuration:
    podNodeSelectorPluginConfig:
      clusterDefaultNodeSelector: cluster=main
      limited: pool=a,cluster=main
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: everyone, operator: Exists, effect: NoSchedule}]
    whitelist: [{operator: Exists}]
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: persistentvolumeclaims
      matchContains: [gold.storageclass.storage.k8s.io/requests.storage]
    - apiGroup: batch
      resource: cronjobs
      matchContains: [count/cronjobs]
    - resource: pods
      matchScopes: [{scopeName: PriorityClass, operator: In, values: [costly]}]
`
