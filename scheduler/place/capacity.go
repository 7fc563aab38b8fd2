package place

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// emptyFirst is the function by which VolumeBinding prefers nodes without a configuration.
var emptyFirst = []ShapePoint{{0, 10}, {100, 0}}

// SetStorageCapacity adds or replaces a capacity that a driver has for volumes of a class.
func (c *Cluster) SetStorageCapacity(s *storagev1.CSIStorageCapacity) {
	c.storage.capacities[s.Namespace+"/"+s.Name] = s
	c.storage.changes++
}

// RemoveStorageCapacity forgets a capacity.
func (c *Cluster) RemoveStorageCapacity(namespace, name string) {
	delete(c.storage.capacities, namespace+"/"+name)
	c.storage.changes++
}

// room reports whether the driver of a class has the capacity for a claim on a node, and returns
// it. It is nil if the capacity does not count: only drivers with spec.storageCapacity publish it.
func (s *storage) room(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, n *corev1.Node) (*storagev1.CSIStorageCapacity, bool) {
	size, has := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	driver := s.drivers[class.Provisioner]
	if !has || driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, true
	}
	var best *storagev1.CSIStorageCapacity // the first one by name
	for _, c := range s.capacities {
		limit := LargestVolume(c)
		if c.StorageClassName != class.Name || limit == nil || limit.Value() < size.Value() || !reaches(c, n) {
			continue
		}
		if best == nil || strings.Compare(c.Namespace+"/"+c.Name, best.Namespace+"/"+best.Name) < 0 {
			best = c
		}
	}
	return best, best != nil
}

// LargestVolume returns the size of the largest volume for which there is the capacity; nil if it
// is not known.
func LargestVolume(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}

// reaches reports whether volumes of a capacity can be used on a node.
func reaches(c *storagev1.CSIStorageCapacity, n *corev1.Node) bool {
	if c.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && selector.Matches(labels.Set(n.Labels))
}

// A use is the part of a capacity that claims request.
type use struct{ requested, capacity int64 }

// score returns how good a node is for choices of volumes. Existing volumes count by their sizes,
// and if there are none, those to be provisioned by the capacity that is left for their classes.
func (p VolumeBinding) score(choices []Choice) int64 {
	static := slices.ContainsFunc(choices, func(c Choice) bool { return c.Volume != nil })
	byClass := map[string]use{}
	for _, c := range choices {
		name := className(c.Claim)
		of := byClass[name]
		request := c.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
		switch {
		case c.Volume != nil:
			size := c.Volume.Spec.Capacity[corev1.ResourceStorage]
			of.capacity += size.Value()
		case static || c.capacity == nil:
			continue
		case c.capacity.Capacity != nil:
			of.capacity = c.capacity.Capacity.Value()
		}
		of.requested += request.Value()
		byClass[name] = of
	}
	if len(byClass) == 0 {
		return 0
	}
	shape := p.Shape
	if shape == nil {
		shape = emptyFirst
	}
	var sum int64
	for _, of := range byClass {
		utilization := int64(100)
		if of.capacity != 0 && of.requested <= of.capacity {
			utilization = of.requested * 100 / of.capacity
		}
		sum += shaped(shape, utilization)
	}
	return int64(math.Round(float64(sum) / float64(len(byClass))))
}
