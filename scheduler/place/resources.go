package place

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	requests "k8s.io/component-helpers/resource"
)

// Resources are amounts: of CPU in thousandths, of others in units or bytes.
type Resources struct {
	CPU, Memory, Storage int64
	Pods                 int64 // only of nodes
	Others               map[corev1.ResourceName]int64
}

// The requests that a container without requests counts with in the scores of nodes.
var assumed = corev1.ResourceList{
	corev1.ResourceCPU:    resource.MustParse("100m"),
	corev1.ResourceMemory: resource.MustParse("200Mi"),
}

func resourcesOf(list corev1.ResourceList) (r Resources) {
	for name, amount := range list {
		switch name {
		case corev1.ResourceCPU:
			r.CPU += amount.MilliValue()
		case corev1.ResourceMemory:
			r.Memory += amount.Value()
		case corev1.ResourceEphemeralStorage:
			r.Storage += amount.Value()
		case corev1.ResourcePods:
			r.Pods += amount.Value()
		default:
			if isOther(name) {
				if r.Others == nil {
					r.Others = map[corev1.ResourceName]int64{}
				}
				r.Others[name] += amount.Value()
			}
		}
	}
	return r
}

// isOther reports whether a resource counts, besides the ones that have a field: extended
// resources, huge pages and volumes that can be attached.
func isOther(name corev1.ResourceName) bool {
	s := string(name)
	return isExtended(name) || strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(s, corev1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(s, corev1.ResourceDefaultNamespacePrefix)
}

// isExtended reports whether a resource is one that Kubernetes does not define.
func isExtended(name corev1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix)
}

// add adds the amounts of other, n times.
func (r *Resources) add(other *Resources, n int64) {
	r.CPU += n * other.CPU
	r.Memory += n * other.Memory
	r.Storage += n * other.Storage
	for name, amount := range other.Others {
		if r.Others == nil {
			r.Others = map[corev1.ResourceName]int64{}
		}
		r.Others[name] += n * amount
	}
}

// requestsOf returns the requests of a pod. For a pod on a node, the resources that the node has
// allocated to its containers are included.
func requestsOf(p *corev1.Pod, onNode bool) (list corev1.ResourceList) {
	return requests.PodRequests(p, requests.PodResourcesOptions{
		UseStatusResources: onNode, InPlacePodLevelResourcesVerticalScalingEnabled: onNode,
	})
}

// assumedOf returns what a pod requests, where containers without a request count as if they had
// one. A resource that a pod with resources of its own has, counts as it is.
func assumedOf(p *corev1.Pod, onNode bool, own corev1.ResourceList) corev1.ResourceList {
	statuses := onNode && len(p.Status.ContainerStatuses)+len(p.Status.InitContainerStatuses) > 0 // they have requests, too
	if !statuses && requestsAll(p.Spec.Containers) && requestsAll(p.Spec.InitContainers) {
		return own
	}
	missing := assumed
	if requests.IsPodLevelRequestsSet(p) {
		missing = corev1.ResourceList{}
		for name, amount := range assumed {
			if _, has := own[name]; !has {
				missing[name] = amount
			}
		}
		if len(missing) == 0 {
			return own
		}
	}
	return requests.PodRequests(p, requests.PodResourcesOptions{
		UseStatusResources: onNode, InPlacePodLevelResourcesVerticalScalingEnabled: onNode, NonMissingContainerRequests: missing,
	})
}

// requestsAll reports whether all containers have a request for each resource in assumed.
func requestsAll(containers []corev1.Container) bool {
	for i := range containers {
		for name := range assumed {
			if _, has := containers[i].Resources.Requests[name]; !has {
				return false
			}
		}
	}
	return true
}

// assumedIn returns what a pod without a node counts as when NodeResourcesFit compares nodes for
// it. As in kube-scheduler, resources of the pod itself do not count there.
func assumedIn(p *corev1.Pod) corev1.ResourceList {
	return requests.PodRequests(p, requests.PodResourcesOptions{SkipPodLevelResources: true, NonMissingContainerRequests: assumed})
}
