package quota

import (
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// A thing is an object that can count for quotas.
type thing interface {
	// usage returns everything that the object uses, by the names in quotas.
	usage() corev1.ResourceList
	// in reports whether the object is in a scope.
	in(scope corev1.ScopedResourceSelectorRequirement) bool
	// lacks returns an error that lists the bounded resources that the object must specify and does
	// not.
	lacks(bounded []corev1.ResourceName) error
}

var (
	pods     = schema.GroupResource{Resource: "pods"}
	services = schema.GroupResource{Resource: "services"}
	volumes  = schema.GroupResource{Resource: "persistentvolumeclaims"}
	devices  = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
)

// changes are the resources whose objects may use more or less after an update. Of all others only
// the number counts.
var changes = map[schema.GroupResource]bool{pods: true, services: true, volumes: true, devices: true}

// aliases are the older names for the number of objects of a resource.
var aliases = map[schema.GroupResource]corev1.ResourceName{
	{Resource: "configmaps"}:             corev1.ResourceConfigMaps,
	{Resource: "resourcequotas"}:         corev1.ResourceQuotas,
	{Resource: "replicationcontrollers"}: corev1.ResourceReplicationControllers,
	{Resource: "secrets"}:                corev1.ResourceSecrets,
}

const countPrefix = "count/"

// countOf returns the name for the number of objects of a resource.
func countOf(gr schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + gr.String())
}

// measures reports whether objects of a resource use the resource with a name.
func measures(gr schema.GroupResource, name corev1.ResourceName) bool {
	if name == countOf(gr) {
		return true
	}
	switch gr {
	case pods:
		return measuresPods(name)
	case services:
		return name == corev1.ResourceServices || name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
	case volumes:
		_, rest, byClass := strings.Cut(string(name), storageClassInfix)
		if !byClass {
			rest = string(name)
		}
		return rest == string(corev1.ResourcePersistentVolumeClaims) || rest == string(corev1.ResourceRequestsStorage)
	case devices:
		return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
	}
	return name == aliases[gr]
}

// usersOf returns the resources whose objects use the resource with a name; none for an unknown
// name.
func usersOf(name corev1.ResourceName) []schema.GroupResource {
	var all []schema.GroupResource
	if text, ok := strings.CutPrefix(string(name), countPrefix); ok {
		all = append(all, schema.ParseGroupResource(text))
	}
	for _, gr := range []schema.GroupResource{pods, services, volumes, devices} {
		if measures(gr, name) && !slices.Contains(all, gr) {
			all = append(all, gr)
		}
	}
	for gr, alias := range aliases {
		if alias == name {
			all = append(all, gr)
		}
	}
	return all
}

// measure returns an object as a thing.
func measure(gr schema.GroupResource, obj resource.Tree) (thing, error) {
	switch gr {
	case pods:
		p, err := admission.Decode[corev1.Pod](obj)
		return (*pod)(p), err
	case services:
		s, err := admission.Decode[corev1.Service](obj)
		return (*service)(s), err
	case volumes:
		v, err := admission.Decode[corev1.PersistentVolumeClaim](obj)
		return (*volume)(v), err
	case devices:
		d, err := admission.Decode[resourcev1.ResourceClaim](obj)
		return (*device)(d), err
	}
	return number(gr), nil
}

// A number is an object that counts only by its number.
type number schema.GroupResource

func (n number) usage() corev1.ResourceList {
	used := corev1.ResourceList{countOf(schema.GroupResource(n)): many(1)}
	if alias, ok := aliases[schema.GroupResource(n)]; ok {
		used[alias] = many(1)
	}
	return used
}

func (number) in(corev1.ScopedResourceSelectorRequirement) bool { return false }
func (number) lacks([]corev1.ResourceName) error                { return nil }

// A service uses node ports and load balancers, as its spec requests.
type service corev1.Service

func (s *service) usage() corev1.ResourceList {
	used := corev1.ResourceList{
		countOf(services): many(1), corev1.ResourceServices: many(1),
		corev1.ResourceServicesLoadBalancers: many(0), corev1.ResourceServicesNodePorts: many(0),
	}
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		used[corev1.ResourceServicesNodePorts] = many(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		used[corev1.ResourceServicesLoadBalancers] = many(1)
		used[corev1.ResourceServicesNodePorts] = many(s.balancedPorts())
	}
	return used
}

// balancedPorts returns the number of node ports of a load-balanced service: one for each port or,
// if allocation is turned off, those that its spec names.
func (s *service) balancedPorts() (n int) {
	if given := s.Spec.AllocateLoadBalancerNodePorts; given == nil || *given {
		return len(s.Spec.Ports)
	}
	for _, port := range s.Spec.Ports {
		if port.NodePort != 0 {
			n++
		}
	}
	return n
}

func (*service) in(corev1.ScopedResourceSelectorRequirement) bool { return false }
func (*service) lacks([]corev1.ResourceName) error                { return nil }

// A device is a ResourceClaim, which counts for its device classes with the most that it can be
// allocated.
type device resourcev1.ResourceClaim

func (d *device) usage() corev1.ResourceList {
	used := corev1.ResourceList{countOf(devices): many(1)}
	for _, request := range d.Spec.Devices.Requests {
		worst := map[corev1.ResourceName]int64{}
		for _, sub := range request.FirstAvailable {
			name := corev1.ResourceName(sub.DeviceClassName + corev1.ResourceClaimsPerClass)
			worst[name] = max(worst[name], allocated(sub.AllocationMode, sub.Count))
		}
		if exact := request.Exactly; exact != nil && len(request.FirstAvailable) == 0 {
			worst[corev1.ResourceName(exact.DeviceClassName+corev1.ResourceClaimsPerClass)] = allocated(exact.AllocationMode, exact.Count)
		}
		for name, n := range worst {
			q := used[name]
			q.Add(many(int(n)))
			used[name] = q
		}
	}
	return used
}

func allocated(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

func (*device) in(corev1.ScopedResourceSelectorRequirement) bool { return false }
func (*device) lacks([]corev1.ResourceName) error                { return nil }

func many(n int) quantity.Quantity { return *quantity.NewQuantity(int64(n), quantity.DecimalSI) }

// selects reports whether a scope's expression matches one of the object's values, or their
// absence.
func selects(scope corev1.ScopedResourceSelectorRequirement, values ...string) bool {
	operators := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	requirement, err := labels.NewRequirement(string(scope.ScopeName), operators[scope.Operator], scope.Values)
	if err != nil {
		return false
	}
	if len(values) == 0 {
		return requirement.Matches(labels.Set{})
	}
	return slices.ContainsFunc(values, func(v string) bool {
		return requirement.Matches(labels.Set{string(scope.ScopeName): v})
	})
}
