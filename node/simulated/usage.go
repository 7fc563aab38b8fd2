package simulated

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/node/internal/metrics"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The usage of a container without a request of the resource.
var (
	idleCPU    = resource.MustParse("1m")
	idleMemory = resource.MustParse("16Mi")
)

// A usageStep is a change of what a container uses, at a time after its start. A nil field changes
// nothing.
type usageStep struct {
	After  *duration          `json:"after"`
	CPU    *resource.Quantity `json:"cpu"`
	Memory *resource.Quantity `json:"memory"`
}

// validateUsage returns an error for a negative usage, and for steps that are not in order.
func (b *behaviour) validateUsage() error {
	if err := validateQuantities(b.CPU, b.Memory); err != nil || b.Usage == nil {
		return err
	}
	var last time.Duration
	for i, step := range *b.Usage {
		switch {
		case step.After == nil || *step.After == forever:
			return fmt.Errorf("usage[%d]: after must be a duration such as \"2m\"", i)
		case time.Duration(*step.After) < last:
			return fmt.Errorf("usage[%d]: after %v is before that of the step before", i, time.Duration(*step.After))
		}
		last = time.Duration(*step.After)
		if err := validateQuantities(step.CPU, step.Memory); err != nil {
			return fmt.Errorf("usage[%d]: %w", i, err)
		}
	}
	return nil
}

func validateQuantities(cpu, memory *resource.Quantity) error {
	if cpu != nil && cpu.Sign() < 0 {
		return fmt.Errorf("cpu %s: must not be negative", cpu)
	}
	if memory != nil && memory.Sign() < 0 {
		return fmt.Errorf("memory %s: must not be negative", memory)
	}
	return nil
}

// usage returns what a container uses that has run for some time.
func (b *behaviour) usage(requests corev1.ResourceList, ran time.Duration) corev1.ResourceList {
	cpu, memory := b.CPU, b.Memory
	if b.Usage != nil {
		for _, step := range *b.Usage {
			if time.Duration(*step.After) > ran {
				break
			}
			inherit(&step.CPU, cpu)
			inherit(&step.Memory, memory)
			cpu, memory = step.CPU, step.Memory
		}
	}
	if cpu == nil {
		cpu = &idleCPU
		if q, ok := requests[corev1.ResourceCPU]; ok {
			cpu = resource.NewMilliQuantity((q.MilliValue()+9)/10, resource.DecimalSI)
		}
	}
	if memory == nil {
		memory = &idleMemory
		if q, ok := requests[corev1.ResourceMemory]; ok {
			memory = resource.NewQuantity(q.Value()/2, resource.BinarySI)
		}
	}
	return corev1.ResourceList{corev1.ResourceCPU: cpu.DeepCopy(), corev1.ResourceMemory: memory.DeepCopy()}
}

// usageOf returns what the running containers of a pod use. given is Options.Usage, and may be nil.
func usageOf(p *corev1.Pod, now time.Time, given func(p *corev1.Pod, container string) corev1.ResourceList) []metrics.Container {
	if p.Status.Phase != corev1.PodRunning {
		return nil
	}
	s, err := simulationOf(p)
	if err != nil {
		s = simulation{} // as the pod behaves
	}
	var all []metrics.Container
	add := func(name string, requests corev1.ResourceList, statuses []corev1.ContainerStatus) {
		for i := range statuses {
			running := statuses[i].State.Running
			if statuses[i].Name != name || running == nil {
				continue
			}
			var used corev1.ResourceList
			if given != nil {
				used = given(p, name)
			}
			if used == nil {
				b := s.of(name)
				used = b.usage(requests, now.Sub(running.StartedAt.Time))
			}
			all = append(all, metrics.Container{Name: name, Usage: used})
		}
	}
	for i := range p.Spec.InitContainers {
		add(p.Spec.InitContainers[i].Name, p.Spec.InitContainers[i].Resources.Requests, p.Status.InitContainerStatuses)
	}
	for i := range p.Spec.Containers {
		add(p.Spec.Containers[i].Name, p.Spec.Containers[i].Resources.Requests, p.Status.ContainerStatuses)
	}
	for i := range p.Spec.EphemeralContainers {
		add(p.Spec.EphemeralContainers[i].Name, nil, p.Status.EphemeralContainerStatuses)
	}
	return all
}
