package storage

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxNodeID        = 256
	minUpdatePeriod  = 10
	immutableForever = "field is immutable"
)

// validateCSINode validates the drivers of a node. A driver stays as it is, except for the number
// of volumes that it can attach.
func validateCSINode(node, old *storagev1.CSINode) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("spec", "drivers")
	repeats := rule.Repeats[string]()
	named := map[string][]storagev1.CSINodeDriver{}
	for i, driver := range node.Spec.Drivers {
		all = append(all, validateNodeDriver(driver, repeats(driver.Name), path.Index(i))...)
		named[driver.Name] = append(named[driver.Name], driver)
	}
	if old == nil {
		return all
	}
	for _, before := range old.Spec.Drivers {
		for _, now := range named[before.Name] {
			now.Allocatable, before.Allocatable = nil, nil
			all = append(all, rule.ValidateImmutable(now, before, path)...)
		}
	}
	return all
}

// validateCSINodeStatus accepts every status: while CSIVolumeHealth is off, it is empty.
func validateCSINodeStatus(_, _ *storagev1.CSINode) field.ErrorList { return nil }

// validateNodeDriver validates one of the drivers of a node. repeated says that one before it has
// the same name.
func validateNodeDriver(driver storagev1.CSINodeDriver, repeated bool, at *field.Path) field.ErrorList {
	all := rule.ValidateDriverName(driver.Name, at.Child("name"))
	all = append(all, rule.RequireText(driver.NodeID, at.Child("nodeID"))...)
	if len(driver.NodeID) > maxNodeID {
		all = append(all, field.Invalid(at.Child("nodeID"), driver.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID)))
	}
	if driver.Allocatable != nil && driver.Allocatable.Count != nil {
		all = append(all, apivalidation.ValidateNonnegativeField(int64(*driver.Allocatable.Count), at.Child("allocatable", "count"))...)
	}
	if repeated {
		all = append(all, field.Duplicate(at.Child("name"), driver.Name))
	}
	repeats := rule.Repeats[string]()
	for _, key := range driver.TopologyKeys {
		all = append(all, rule.RequireText(key, at)...)
		if repeats(key) {
			all = append(all, field.Duplicate(at, key))
		}
		all = append(all, rule.ValidateQualifiedName(at, key)...)
	}
	return all
}

// validateCSIDriver returns the errors of a driver.
func validateCSIDriver(driver, old *storagev1.CSIDriver) field.ErrorList {
	spec, path := &driver.Spec, field.NewPath("spec")
	var all field.ErrorList
	if policy := spec.FSGroupPolicy; policy != nil {
		supported := []storagev1.FSGroupPolicy{storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy}
		if !slices.Contains(supported, *policy) {
			all = append(all, field.NotSupported(path.Child("fsGroupPolicy"), *policy, supported))
		}
	}
	all = append(all, validateTokenRequests(spec.TokenRequests, path.Child("tokenRequests"))...)
	modes := path.Child("volumeLifecycleModes")
	for _, mode := range spec.VolumeLifecycleModes {
		if mode != storagev1.VolumeLifecyclePersistent && mode != storagev1.VolumeLifecycleEphemeral {
			all = append(all, field.NotSupported(modes, mode, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}))
		}
	}
	if period := spec.NodeAllocatableUpdatePeriodSeconds; period != nil && *period < minUpdatePeriod {
		all = append(all, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"), *period, "must be greater than or equal to 10 seconds"))
	}
	if spec.ServiceAccountTokenInSecrets != nil && len(spec.TokenRequests) == 0 {
		all = append(all, field.Invalid(path.Child("serviceAccountTokenInSecrets"), *spec.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	if old == nil {
		return all
	}
	// Kubernetes uses another name of the field in this error only.
	all = append(all, apivalidation.ValidateImmutableField(spec.AttachRequired, old.Spec.AttachRequired, path.Child("attachedRequired"))...)
	return append(all, apivalidation.ValidateImmutableField(spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, modes)...)
}

func validateTokenRequests(requests []storagev1.TokenRequest, at *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, request := range requests {
		if seen[request.Audience] {
			all = append(all, field.Duplicate(at.Index(i).Child("audience"), request.Audience))
			continue
		}
		seen[request.Audience] = true
		seconds, path := request.ExpirationSeconds, at.Index(i).Child("expirationSeconds")
		switch {
		case seconds == nil:
		case *seconds < rule.MinTokenSeconds:
			all = append(all, field.Invalid(path, *seconds, "may not specify a duration less than 10 minutes"))
		case *seconds > rule.MaxTokenSeconds:
			all = append(all, field.Invalid(path, *seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return all
}

// validateCSIStorageCapacity returns the errors of a capacity, whose topology and class are
// immutable.
func validateCSIStorageCapacity(capacity, old *storagev1.CSIStorageCapacity) field.ErrorList {
	topology, class := field.NewPath("nodeTopology"), field.NewPath("storageClassName")
	options := metav1validation.LabelSelectorValidationOptions{}
	if old != nil {
		options.AllowInvalidLabelValueInSelector = len(metav1validation.ValidateLabelSelector(old.NodeTopology, options, nil)) > 0
	}
	all := metav1validation.ValidateLabelSelector(capacity.NodeTopology, options, topology)
	all = append(all, validateClassName(capacity.StorageClassName, class)...)
	if capacity.Capacity != nil {
		all = append(all, rule.ValidateNotNegative(*capacity.Capacity, field.NewPath("capacity"))...)
	}
	if old == nil {
		return all
	}
	if !equality.Semantic.DeepEqual(capacity.NodeTopology, old.NodeTopology) {
		all = append(all, field.Invalid(topology, capacity.NodeTopology, immutableForever))
	}
	if capacity.StorageClassName != old.StorageClassName {
		all = append(all, field.Invalid(class, capacity.StorageClassName, immutableForever))
	}
	return all
}
