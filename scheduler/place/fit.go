package place

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeResourcesFit rejects nodes without enough resources for a pod, and prefers those with more resources
// left.
type NodeResourcesFit struct{}

func (NodeResourcesFit) Name() string { return "NodeResourcesFit" }

func (p NodeResourcesFit) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	want := pod.requests
	counts := assumedIn(pod.Object)
	moreCPU, moreMemory := counts.Cpu().MilliValue(), counts.Memory().Value()
	return Rule{
		Filter: func(n *Node) *Refusal { return p.filter(&want, n) },
		Score: func(n *Node) int64 {
			cpu := left(n.assumedCPU+moreCPU, n.Allocatable.CPU)
			memory := left(n.assumedMemory+moreMemory, n.Allocatable.Memory)
			weights := int64(0)
			for _, has := range []int64{n.Allocatable.CPU, n.Allocatable.Memory} {
				if has != 0 {
					weights++
				}
			}
			if weights == 0 {
				return 0
			}
			return (cpu + memory) / weights
		},
	}, nil
}

// left returns the part of a resource that is not requested, out of MaxScore.
func left(requested, has int64) int64 {
	if has == 0 || requested > has {
		return 0
	}
	return (has - requested) * MaxScore / has
}

func (p NodeResourcesFit) filter(want *Resources, n *Node) *Refusal {
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
		names = append(names, name)
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

// NodeResourcesBalancedAllocation prefers nodes on which a pod makes the parts of CPU and memory that are
// requested more alike.
type NodeResourcesBalancedAllocation struct{}

func (NodeResourcesBalancedAllocation) Name() string { return "NodeResourcesBalancedAllocation" }

func (NodeResourcesBalancedAllocation) Compile(_ *Cluster, pod *Pod) (Rule, *Refusal) {
	if pod.requests.CPU == 0 && pod.requests.Memory == 0 {
		return Rule{}, nil
	}
	return Rule{Score: func(n *Node) int64 {
		with := balance(n.Requested.CPU+pod.requests.CPU, n.Requested.Memory+pod.requests.Memory, &n.Allocatable)
		without := balance(n.Requested.CPU, n.Requested.Memory, &n.Allocatable)
		return MaxScore/2 + (MaxScore/2+with-without)/2
	}}, nil
}

// balance returns MaxScore if the same parts of CPU and memory are requested, and less otherwise.
func balance(cpu, memory int64, has *Resources) int64 {
	if has.CPU == 0 || has.Memory == 0 {
		return MaxScore
	}
	part := func(requested, has int64) float64 { return min(float64(requested)/float64(has), 1) }
	return int64((1 - math.Abs((part(cpu, has.CPU)-part(memory, has.Memory))/2)) * MaxScore)
}
