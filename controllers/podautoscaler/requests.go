package podautoscaler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// requests returns what pods request of a resource, in thousandths and by their names: one of their
// containers, or without a name all of them. It returns an error if one of them requests none.
func requests(pods []*corev1.Pod, container string, of corev1.ResourceName) (map[string]int64, error) {
	all := make(map[string]int64, len(pods))
	for _, p := range pods {
		var err error
		if container == "" && resource.IsPodLevelRequestsSet(p) {
			all[p.Name], err = ofPod(p, of)
		} else {
			all[p.Name], err = ofContainers(p, container, of)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ofPod returns the request of a pod that has one of its own.
func ofPod(p *corev1.Pod, of corev1.ResourceName) (int64, error) {
	q, ok := resource.PodRequests(p, resource.PodResourcesOptions{})[of]
	if !ok {
		return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", of, p.Name)
	}
	return q.MilliValue(), nil
}

// ofContainers returns the sum of the requests of containers that run as long as the pod, or the
// request of one of them.
func ofContainers(p *corev1.Pod, name string, of corev1.ResourceName) (sum int64, err error) {
	containers := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	found := false
	for i := range containers {
		c := &containers[i]
		if name != "" && name != c.Name {
			continue
		}
		q, ok := c.Resources.Requests[of]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", of, c.Name, p.Name)
		}
		sum, found = sum+q.MilliValue(), true
	}
	if name != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", name, p.Name)
	}
	return sum, nil
}
