package place

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// devices holds what the scheduler has received about devices, and which ones are allocated.
type devices struct {
	claims   map[string]*resourcev1.ResourceClaim // by namespace/name
	classes  map[string]*resourcev1.DeviceClass
	slices   map[string]*resourcev1.ResourceSlice
	rules    map[string]*resourcev1.DeviceTaintRule
	pending  map[types.UID]*resourcev1.AllocationResult // that are not in the status of their claims yet
	extended map[types.UID]*resourcev1.AllocationResult // of extended claims that have none yet, by pods
	changes  int                                        // of the above

	allocated structured.AllocatedState   // by claims and pending
	tainted   []*resourcev1.ResourceSlice // slices with the taints of rules, by name; nil if they are to be computed
	compiled  *cel.Cache
}

func newDevices() devices {
	return devices{
		claims: map[string]*resourcev1.ResourceClaim{}, classes: map[string]*resourcev1.DeviceClass{}, slices: map[string]*resourcev1.ResourceSlice{},
		rules: map[string]*resourcev1.DeviceTaintRule{}, pending: map[types.UID]*resourcev1.AllocationResult{}, extended: map[types.UID]*resourcev1.AllocationResult{},
		allocated: structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		},
		compiled: cel.NewCache(64, cel.Features{EnableConsumableCapacity: true}),
	}
}

// SetResourceClaim adds or replaces a claim of devices. One that is older than what is known of the
// claim is ignored: a response to a write may come before the event of an earlier write.
func (c *Cluster) SetResourceClaim(claim *resourcev1.ResourceClaim) {
	key := claim.Namespace + "/" + claim.Name
	had := c.devices.claims[key]
	if had != nil && had.UID == claim.UID {
		if order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, had.ResourceVersion); err == nil && order < 0 {
			return
		}
	}
	c.devices.replace(key, claim)
}

// RemoveResourceClaim forgets a claim of devices.
func (c *Cluster) RemoveResourceClaim(namespace, name string) {
	c.devices.replace(namespace+"/"+name, nil)
}

// ResourceClaim returns a claim of devices, nil if there is none.
func (c *Cluster) ResourceClaim(namespace, name string) *resourcev1.ResourceClaim {
	return c.devices.claims[namespace+"/"+name]
}

// SetDeviceClass adds or replaces a class of devices.
func (c *Cluster) SetDeviceClass(class *resourcev1.DeviceClass) {
	c.devices.classes[class.Name] = class
	c.devices.changes++
}

// RemoveDeviceClass forgets a class of devices.
func (c *Cluster) RemoveDeviceClass(name string) {
	delete(c.devices.classes, name)
	c.devices.changes++
}

// SetResourceSlice adds or replaces a list of devices.
func (c *Cluster) SetResourceSlice(s *resourcev1.ResourceSlice) {
	c.devices.slices[s.Name] = s
	c.devices.retaint()
}

// RemoveResourceSlice forgets a list of devices.
func (c *Cluster) RemoveResourceSlice(name string) {
	delete(c.devices.slices, name)
	c.devices.retaint()
}

// SetDeviceTaintRule adds or replaces a rule that taints devices.
func (c *Cluster) SetDeviceTaintRule(r *resourcev1.DeviceTaintRule) {
	c.devices.rules[r.Name] = r
	c.devices.retaint()
}

// RemoveDeviceTaintRule forgets a rule that taints devices.
func (c *Cluster) RemoveDeviceTaintRule(name string) {
	delete(c.devices.rules, name)
	c.devices.retaint()
}

func (d *devices) retaint() {
	d.tainted = nil
	d.changes++
}

// replace replaces a claim; nil removes it.
func (d *devices) replace(key string, claim *resourcev1.ResourceClaim) {
	if had := d.claims[key]; had != nil {
		d.count(d.allocationOf(had), false)
		if claim == nil || claim.UID != had.UID {
			delete(d.pending, had.UID)
		}
	}
	delete(d.claims, key)
	if claim != nil {
		if claim.Status.Allocation != nil {
			delete(d.pending, claim.UID)
			if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && IsExtendedClaim(claim, owner.UID) {
				d.awaitExtended(owner.UID, nil)
			}
		}
		d.claims[key] = claim
		d.count(d.allocationOf(claim), true)
	}
	d.changes++
}

// await notes that a claim is going to have an allocation; nil is none.
func (d *devices) await(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) {
	have := d.claims[claim.Namespace+"/"+claim.Name]
	if have == nil || have.UID != claim.UID || have.Status.Allocation != nil {
		return
	}
	d.count(d.allocationOf(have), false)
	delete(d.pending, have.UID)
	if allocation != nil {
		d.pending[have.UID] = allocation
	}
	d.count(d.allocationOf(have), true)
	d.changes++
}

// awaitExtended notes that the extended claim of a pod is going to have an allocation; nil is none.
func (d *devices) awaitExtended(pod types.UID, allocation *resourcev1.AllocationResult) {
	had := d.extended[pod]
	if had == nil && allocation == nil {
		return
	}
	d.count(had, false)
	delete(d.extended, pod)
	if allocation != nil {
		d.extended[pod] = allocation
	}
	d.count(allocation, true)
	d.changes++
}

// allocationOf returns the allocation of a claim, or the one that it is going to have.
func (d *devices) allocationOf(claim *resourcev1.ResourceClaim) *resourcev1.AllocationResult {
	if claim.Status.Allocation != nil {
		return claim.Status.Allocation
	}
	return d.pending[claim.UID]
}

// count adds the devices of an allocation to those that are allocated, or removes them. A device
// with access for an administrator does not count.
func (d *devices) count(a *resourcev1.AllocationResult, add bool) {
	if a == nil {
		return
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		switch {
		case r.AdminAccess != nil && *r.AdminAccess:
		case r.ShareID != nil:
			shared, consumed := structured.MakeSharedDeviceID(id, r.ShareID), structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity)
			if add {
				d.allocated.AllocatedSharedDeviceIDs.Insert(shared)
				d.allocated.AggregatedCapacity.Insert(consumed)
			} else {
				d.allocated.AllocatedSharedDeviceIDs.Delete(shared)
				d.allocated.AggregatedCapacity.Remove(consumed)
			}
		case add:
			d.allocated.AllocatedDevices.Insert(id)
		default:
			d.allocated.AllocatedDevices.Delete(id)
		}
	}
}

// list returns the devices of all nodes, with the taints of rules.
func (d *devices) list() []*resourcev1.ResourceSlice {
	if d.tainted != nil {
		return d.tainted
	}
	d.tainted = make([]*resourcev1.ResourceSlice, 0, len(d.slices))
	for _, s := range d.slices {
		d.tainted = append(d.tainted, d.taint(s))
	}
	slices.SortFunc(d.tainted, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return d.tainted
}

// taint returns a list of devices with the taints of rules.
func (d *devices) taint(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	is := func(want *string, name string) bool { return want == nil || *want == name }
	with := s
	for _, rule := range d.rules {
		of := rule.Spec.DeviceSelector
		if of == nil || !is(of.Driver, s.Spec.Driver) || !is(of.Pool, s.Spec.Pool.Name) {
			continue
		}
		for i := range s.Spec.Devices {
			if !is(of.Device, s.Spec.Devices[i].Name) {
				continue
			}
			if with == s {
				with = s.DeepCopy()
			}
			with.Spec.Devices[i].Taints = append(with.Spec.Devices[i].Taints, rule.Spec.Taint)
		}
	}
	return with
}

// lister is the structured.DeviceClassLister of devices.
type lister map[string]*resourcev1.DeviceClass

func (l lister) List() (all []*resourcev1.DeviceClass, err error) {
	for _, class := range l {
		all = append(all, class)
	}
	return all, nil
}

func (l lister) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := l[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
}
