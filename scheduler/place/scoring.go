package place

import (
	"math"

	corev1 "k8s.io/api/core/v1"
)

// A Strategy is how NodeResourcesFit compares nodes. The zero value is LeastAllocated.
type Strategy int

const (
	// LeastAllocated prefers nodes with more resources left.
	LeastAllocated Strategy = iota
	// MostAllocated prefers nodes with fewer resources left.
	MostAllocated
	// RequestedToCapacityRatio scores nodes by a function of the part that is requested.
	RequestedToCapacityRatio
)

// A ResourceWeight is a resource that counts in scores, and how much.
type ResourceWeight struct {
	Name   corev1.ResourceName
	Weight int64
}

// usualResources are the resources that count in scores without a configuration.
var usualResources = []ResourceWeight{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}

// A ShapePoint is a point of a function of RequestedToCapacityRatio or VolumeBinding, which is
// linear between its points: the utilization in percent, and the score for it, from 0 to 10.
type ShapePoint struct{ Utilization, Score int64 }

// A scored is a resource that counts in scores, with the request of a pod.
type scored struct {
	ResourceWeight
	request int64
	// devices counts the devices of a class that provides the resource; nil if there is none.
	devices func(*Node) (has, used int64)
}

// usage returns the amount of the resource that a node has, and how much of it is used: see
// Node.usage. Devices count on nodes that do not list the resource.
func (r *scored) usage(n *Node, assumed bool) (has, used int64) {
	has, used = n.usage(r.Name, assumed)
	if has == 0 && r.devices != nil {
		if devices, taken := r.devices(n); devices > 0 {
			return devices, taken
		}
	}
	return has, used
}

// scoredOf returns the resources that count for a pod with the requests list. Those besides CPU,
// memory and storage count only if it requests them.
func (d *devices) scoredOf(resources []ResourceWeight, list corev1.ResourceList) (all []scored) {
	if len(resources) == 0 {
		resources = usualResources
	}
	for _, r := range resources {
		amount := list[r.Name]
		one := scored{ResourceWeight: r, request: amount.Value()}
		if class := d.provider(r.Name); class != nil {
			one.devices = d.counter(class)
		}
		if r.Name == corev1.ResourceCPU {
			one.request = amount.MilliValue()
		}
		if one.request != 0 || !isOther(r.Name) {
			all = append(all, one)
		}
	}
	return all
}

// usage returns the amount of a resource that a node has, and how much of it its pods request. If
// assumed is set, pods without requests of CPU and memory count as if they had some.
func (n *Node) usage(name corev1.ResourceName, assumed bool) (has, used int64) {
	switch {
	case name == corev1.ResourceCPU && assumed:
		return n.Allocatable.CPU, n.assumedCPU
	case name == corev1.ResourceCPU:
		return n.Allocatable.CPU, n.Requested.CPU
	case name == corev1.ResourceMemory && assumed:
		return n.Allocatable.Memory, n.assumedMemory
	case name == corev1.ResourceMemory:
		return n.Allocatable.Memory, n.Requested.Memory
	case name == corev1.ResourceEphemeralStorage:
		return n.Allocatable.Storage, n.Requested.Storage
	}
	return n.Allocatable.Others[name], n.Requested.Others[name]
}

// score returns the score of a node for the resources.
func (p NodeResourcesFit) score(n *Node, resources []scored) int64 {
	var sum, weights int64
	for _, r := range resources {
		has, used := r.usage(n, true)
		if has == 0 {
			continue
		}
		used += r.request
		var score int64
		switch p.Strategy {
		case MostAllocated:
			score = min(used, has) * MaxScore / has
		case RequestedToCapacityRatio:
			if score = shaped(p.Shape, min(used*100/has, 100)); score == 0 {
				continue
			}
		default:
			score = max(has-used, 0) * MaxScore / has
		}
		sum += r.Weight * score
		weights += r.Weight
	}
	switch {
	case weights == 0:
		return 0
	case p.Strategy == RequestedToCapacityRatio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

// shaped returns the score for a utilization in percent.
func shaped(shape []ShapePoint, utilization int64) int64 {
	const scale = MaxScore / 10
	for i, to := range shape {
		switch {
		case utilization > to.Utilization:
		case i == 0:
			return scale * to.Score
		default:
			from := shape[i-1]
			return scale*from.Score + scale*(to.Score-from.Score)*(utilization-from.Utilization)/(to.Utilization-from.Utilization)
		}
	}
	if len(shape) == 0 {
		return 0
	}
	return scale * shape[len(shape)-1].Score
}

// balance returns MaxScore if the same parts of all resources are requested, and less otherwise. If
// with is set, the request of the pod counts as well.
func balance(n *Node, resources []scored, with bool) int64 {
	var parts []float64
	var sum float64
	for _, r := range resources {
		has, used := r.usage(n, false)
		if has == 0 {
			continue
		}
		if with {
			used += r.request
		}
		parts = append(parts, min(float64(used)/float64(has), 1))
		sum += parts[len(parts)-1]
	}
	deviation := 0.0
	switch {
	case len(parts) == 2:
		deviation = math.Abs((parts[0] - parts[1]) / 2)
	case len(parts) > 2:
		mean, squares := sum/float64(len(parts)), 0.0
		for _, part := range parts {
			squares += (part - mean) * (part - mean)
		}
		deviation = math.Sqrt(squares / float64(len(parts)))
	}
	return int64((1 - deviation) * MaxScore)
}
