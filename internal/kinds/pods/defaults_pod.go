package pods

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// defaultPod applies the defaults of pods that pod templates do not have.
func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			requestLimits(&containers[i].Resources)
			if spec.HostNetwork {
				useHostPorts(containers[i].Ports)
			}
		}
	}
	defaults.Pointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	DefaultPodSpec(spec)
	defaultPodStatus(&pod.Status)
}

// requestLimits sets missing requests to the limits.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits != nil && r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// useHostPorts sets the host port of containers in the host's network to the container port.
func useHostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		defaults.Value(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

// DefaultPodSpec applies the defaults of pods and pod templates.
func DefaultPodSpec(spec *corev1.PodSpec) {
	// serviceAccount is the deprecated name of serviceAccountName and has the same value.
	defaults.Value(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	defaults.Value(&spec.DNSPolicy, corev1.DNSClusterFirst)
	defaults.Value(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	defaults.Pointer(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	defaults.Value(&spec.SchedulerName, corev1.DefaultSchedulerName)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits, spec.Resources.Requests)
	}
}

func defaultContainer(c *corev1.Container) {
	defaults.Value(&c.ImagePullPolicy, pullPolicy(c.Image))
	defaults.Value(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	defaults.Value(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		defaults.Value(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				defaults.Pointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundUp(c.Resources.Limits, c.Resources.Requests)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			defaultProbe(probe)
		}
	}
	if c.Lifecycle != nil {
		for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				defaultHTTPGet(handler.HTTPGet)
			}
		}
	}
}

func defaultProbe(probe *corev1.Probe) {
	defaults.Value(&probe.TimeoutSeconds, 1)
	defaults.Value(&probe.PeriodSeconds, 10)
	defaults.Value(&probe.SuccessThreshold, 1)
	defaults.Value(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		defaults.Pointer(&probe.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		defaults.Value(&get.Path, "/")
		defaults.Value(&get.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		defaults.Value(&ref.APIVersion, "v1")
	}
}

func defaultPodStatus(status *corev1.PodStatus) {
	switch {
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}} // old kubelets write podIP only
	}
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range containers {
			roundUp(containers[i].AllocatedResources)
			if r := containers[i].Resources; r != nil {
				roundUp(r.Limits, r.Requests)
			}
		}
	}
	roundUp(status.AllocatedResources)
	if status.Resources != nil {
		roundUp(status.Resources.Limits, status.Resources.Requests)
	}
}

// roundUp rounds quantities up to thousandths, the smallest unit of resources.
func roundUp(lists ...corev1.ResourceList) {
	for _, list := range lists {
		for name, quantity := range list {
			quantity.RoundUp(resource.Milli)
			list[name] = quantity
		}
	}
}
