package defaults

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func coreTypes(f *functions) {
	whole(f, Pod)
	whole(f, PodSpec)
	whole(f, func(list *corev1.ResourceList) { roundUp(*list) })
	on(f, defaultReplicationController)
	on(f, func(s *corev1.Secret) { fill(&s.Type, corev1.SecretTypeOpaque) })
	on(f, Namespace)
	on(f, defaultService)
	on(f, func(p *corev1.EndpointPort) { fill(&p.Protocol, corev1.ProtocolTCP) })
	on(f, defaultLimitRange)
	on(f, defaultNodeSpec)
	on(f, func(status *corev1.NodeStatus) {
		if status.Allocatable == nil {
			status.Allocatable = maps.Clone(status.Capacity)
		}
	})
	on(f, func(v *corev1.PersistentVolume) {
		fill(&v.Status.Phase, corev1.VolumePending)
		fill(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		set(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	})
	on(f, defaultPersistentSource)
	on(f, func(c *corev1.PersistentVolumeClaim) { fill(&c.Status.Phase, corev1.ClaimPending) })
	on(f, func(spec *corev1.PersistentVolumeClaimSpec) { set(&spec.VolumeMode, corev1.PersistentVolumeFilesystem) })
}

// Secret folds stringData into data; nobody reads stringData back.
func Secret(s *corev1.Secret) {
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
	fill(&s.Type, corev1.SecretTypeOpaque)
}

// Namespace labels a namespace with its name.
func Namespace(ns *corev1.Namespace) {
	if ns.Name != "" {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
	fill(&ns.Status.Phase, corev1.NamespaceActive)
}

// defaultNodeSpec has the first range of a node's pods in both of the fields that say it. What old clients write counts.
func defaultNodeSpec(spec *corev1.NodeSpec) {
	switch {
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	case len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	}
}

func defaultReplicationController(c *corev1.ReplicationController) {
	set(&c.Spec.Replicas, 1)
	if c.Spec.Template == nil || c.Spec.Template.Labels == nil {
		return
	}
	if len(c.Spec.Selector) == 0 {
		c.Spec.Selector = maps.Clone(c.Spec.Template.Labels)
	}
	if len(c.Labels) == 0 {
		c.Labels = maps.Clone(c.Spec.Template.Labels)
	}
}

func defaultService(s *corev1.Service) {
	spec := &s.Spec
	fill(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		set(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		set(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		set(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	fill(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		fill(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == (intstr.IntOrString{}) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	if balanced || spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0 {
		fill(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if balanced || spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeClusterIP {
		set(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if balanced {
		set(&spec.AllocateLoadBalancerNodePorts, true)
		for i := range s.Status.LoadBalancer.Ingress {
			if ingress := &s.Status.LoadBalancer.Ingress[i]; ingress.IP != "" {
				set(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

// defaultLimitRange takes limits that are not said from the largest allowed, and requests from the limit, then from the
// smallest allowed.
func defaultLimitRange(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	if item.Default == nil {
		item.Default = corev1.ResourceList{}
	}
	if item.DefaultRequest == nil {
		item.DefaultRequest = corev1.ResourceList{}
	}
	inherit(item.Default, item.Max)
	inherit(item.DefaultRequest, item.Default)
	inherit(item.DefaultRequest, item.Min)
}

func inherit(list, from corev1.ResourceList) {
	for name, quantity := range from {
		if _, ok := list[name]; !ok {
			list[name] = quantity.DeepCopy()
		}
	}
}

// defaultPersistentSource is [defaultNetworkVolume] for persistent volumes, whose types differ where they name secrets.
func defaultPersistentSource(source *corev1.PersistentVolumeSource) {
	if v := source.HostPath; v != nil {
		set(&v.Type, corev1.HostPathUnset)
	}
	if v := source.ISCSI; v != nil {
		fill(&v.ISCSIInterface, "default")
	}
	if v := source.RBD; v != nil {
		fill(&v.RBDPool, "rbd")
		fill(&v.RadosUser, "admin")
		fill(&v.Keyring, "/etc/ceph/keyring")
	}
	if v := source.AzureDisk; v != nil {
		set(&v.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		set(&v.FSType, "ext4")
		set(&v.ReadOnly, false)
		set(&v.Kind, corev1.AzureSharedBlobDisk)
	}
	if v := source.ScaleIO; v != nil {
		fill(&v.StorageMode, "ThinProvisioned")
		fill(&v.FSType, "xfs")
	}
}
