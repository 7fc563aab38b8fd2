package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NodeResourcesFit rejects nodes without enough resources for a pod, and prefers those with more
// resources left, or others by its Strategy.
type NodeResourcesFit struct {
	Strategy Strategy
	// Resources count in scores. Default: CPU and memory, with the weight 1.
	Resources []ResourceWeight
	// Shape is the function of RequestedToCapacityRatio, its points in the order of their
	// utilization.
	Shape []ShapePoint
	// IgnoredResources and IgnoredGroups are extended resources that pods get whether a node has
	// them or not: by their names, and by the part of the name before the slash.
	IgnoredResources, IgnoredGroups []string
}

// Name implements Plugin.
func (NodeResourcesFit) Name() string { return "NodeResourcesFit" }

// Compile implements Plugin.
func (p NodeResourcesFit) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	want := pod.requests
	devices := map[corev1.ResourceName]bool{} // the resources that classes of devices provide
	for name := range want.Others {
		if c.devices.provider(name) != nil {
			devices[name] = true
		}
	}
	resources := c.devices.scoredOf(p.Resources, assumedIn(pod.Object))
	return Rule{
		Filter: func(n *Node) *Refusal { return p.filter(&want, devices, n) },
		Score:  func(n *Node) int64 { return p.score(n, resources) },
	}, nil
}

// ignores reports whether a resource need not be on the node.
func (p NodeResourcesFit) ignores(name corev1.ResourceName) bool {
	group, _, _ := strings.Cut(string(name), "/")
	return isExtended(name) && (slices.Contains(p.IgnoredResources, string(name)) || slices.Contains(p.IgnoredGroups, group))
}

func (p NodeResourcesFit) filter(want *Resources, devices map[corev1.ResourceName]bool, n *Node) *Refusal {
	no := Refusal{Plugin: p.Name()}
	if int64(len(n.Pods))+1 > n.Allocatable.Pods {
		no.Reasons = append(no.Reasons, "Too many pods")
	}
	lacks := func(name string, want, used, has int64) {
		if want > 0 && want > has-used {
			no.Reasons = append(no.Reasons, "Insufficient "+name)
			no.Final = no.Final || want > has
		}
	}
	lacks("cpu", want.CPU, n.Requested.CPU, n.Allocatable.CPU)
	lacks("memory", want.Memory, n.Requested.Memory, n.Allocatable.Memory)
	lacks("ephemeral-storage", want.Storage, n.Requested.Storage, n.Allocatable.Storage)
	var names []corev1.ResourceName
	for name := range want.Others {
		if !p.ignores(name) && !(devices[name] && n.Allocatable.Others[name] == 0) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		lacks(fmt.Sprint(name), want.Others[name], n.Requested.Others[name], n.Allocatable.Others[name])
	}
	if len(no.Reasons) == 0 {
		return nil
	}
	return &no
}

// NodeResourcesBalancedAllocation prefers nodes on which a pod makes the parts of CPU and memory
// that are requested more alike.
type NodeResourcesBalancedAllocation struct {
	// Resources are those that count. Default: CPU and memory.
	Resources []corev1.ResourceName
}

// Name implements Plugin.
func (NodeResourcesBalancedAllocation) Name() string { return "NodeResourcesBalancedAllocation" }

// Compile implements Plugin.
func (p NodeResourcesBalancedAllocation) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	var weighted []ResourceWeight
	for _, name := range p.Resources {
		weighted = append(weighted, ResourceWeight{name, 1})
	}
	resources := c.devices.scoredOf(weighted, requestsOf(pod.Object, false))
	if !slices.ContainsFunc(resources, func(r scored) bool { return r.request != 0 }) {
		return Rule{}, nil
	}
	return Rule{Score: func(n *Node) int64 {
		return MaxScore/2 + (MaxScore/2+balance(n, resources, true)-balance(n, resources, false))/2
	}}, nil
}
