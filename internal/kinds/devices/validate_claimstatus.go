package devices

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validateResourceClaimStatus returns the errors of allocations and reservations. An allocation is
// immutable until it is removed.
func validateResourceClaimStatus(c, old *resourcev1.ResourceClaim) field.ErrorList {
	status, at := &c.Status, field.NewPath("status")
	reserved := at.Child("reservedFor")
	all := validateEach(status.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, reserved, validateConsumer)
	all = append(all, validateUnique(status.ReservedFor, reserved,
		func(r *resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID })...)

	allocated := map[sharedDevice]bool{}
	if status.Allocation != nil {
		for _, r := range status.Allocation.Devices.Results {
			allocated[sharedDevice{r.Driver, r.Pool, r.Device, string(ptr.Deref(r.ShareID, ""))}] = true
		}
	}
	for i := range status.Devices {
		all = append(all, validateAllocatedDevice(&status.Devices[i], allocated, at.Child("devices").Index(i))...)
	}
	isNew := func(r resourcev1.ResourceClaimConsumerReference) bool {
		return !slices.Contains(old.Status.ReservedFor, r)
	}
	if len(status.ReservedFor) > 0 && status.Allocation == nil {
		all = append(all, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
	} else if c.DeletionTimestamp != nil && slices.ContainsFunc(status.ReservedFor, isNew) {
		all = append(all, field.Forbidden(reserved, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	switch before := old.Status.Allocation; {
	case status.Allocation == nil:
	case before == nil:
		all = append(all, validateAllocation(&status.Allocation.Devices, requestNames(&c.Spec.Devices), at.Child("allocation", "devices"))...)
	case !equality.Semantic.DeepEqual(before, status.Allocation):
		all = append(all, field.Invalid(at.Child("allocation"), nil, "field cannot be modified once set"))
	}
	return all
}

// sharedDevice identifies a device, or a share of one.
type sharedDevice struct{ Driver, Pool, Device, ShareID string }

func validateConsumer(r *resourcev1.ResourceClaimConsumerReference, at *field.Path) field.ErrorList {
	all := rule.RequireText(r.Resource, at.Child("resource"))
	all = append(all, rule.RequireText(r.Name, at.Child("name"))...)
	return append(all, rule.RequireText(string(r.UID), at.Child("uid"))...)
}

func validateAllocation(a *resourcev1.DeviceAllocationResult, names map[string]bool, at *field.Path) field.ErrorList {
	all := validateEach(a.Results, resourcev1.AllocationResultsMaxSize, at.Child("results"), func(r *resourcev1.DeviceRequestAllocationResult, at *field.Path) field.ErrorList {
		all := validateRequestRef(r.Request, names, at.Child("request"))
		all = append(all, rule.ValidateLabel(at.Child("device"), r.Device)...)
		all = append(all, validateBindingConditions(r.BindingConditions, r.BindingFailureConditions, at)...)
		all = append(all, validateDeviceTolerations(r.Tolerations, at.Child("tolerations"))...)
		all = append(all, validateMarkedDriver(r.Driver, at.Child("driver"))...)
		if r.Pool == "" {
			all = append(all, field.Required(at.Child("pool"), ""))
		} else {
			all = append(all, byMarker(validate.ResourcePoolName, at.Child("pool"), r.Pool)...)
		}
		if r.ShareID != nil {
			all = append(all, byMarker(validate.UUID, at.Child("shareID"), *r.ShareID)...)
		}
		return all
	})
	return append(all, validateEach(a.Config, 2*resourcev1.DeviceConfigMaxSize, at.Child("config"), func(c *resourcev1.DeviceAllocationConfiguration, at *field.Path) field.ErrorList {
		all := rule.OneOf(at.Child("source"), c.Source, resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
		all = append(all, validateRequestRefs(c.Requests, names, at.Child("requests"))...)
		return append(all, validateDeviceConfiguration(&c.DeviceConfiguration, false, at)...)
	})...)
}

func validateAllocatedDevice(d *resourcev1.AllocatedDeviceStatus, allocated map[sharedDevice]bool, at *field.Path) field.ErrorList {
	all := validateDeviceDriver(d.Driver, at.Child("driver"))
	all = append(all, validateDevicePool(d.Pool, at.Child("pool"))...)
	all = append(all, rule.ValidateLabel(at.Child("device"), d.Device)...)
	if device := (sharedDevice{d.Driver, d.Pool, d.Device, ptr.Deref(d.ShareID, "")}); !allocated[device] {
		all = append(all, field.Invalid(at, rule.AsInternal(device), "must be an allocated device in the claim"))
	}
	conditions := at.Child("conditions")
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		all = append(all, field.TooMany(conditions, n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	all = append(all, metav1validation.ValidateConditions(d.Conditions, conditions)...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		all = append(all, validateJSONObject(*d.Data, false, resourcev1.AllocatedDeviceStatusDataMaxLength, at.Child("data"))...)
	}
	all = append(all, validateNetworkDevice(d.NetworkData, at.Child("networkData"))...)
	if d.ShareID != nil {
		all = append(all, byMarker(validate.UUID, at.Child("shareID"), *d.ShareID)...)
	}
	return all
}

func validateNetworkDevice(d *resourcev1.NetworkDeviceData, at *field.Path) (all field.ErrorList) {
	if d == nil {
		return nil
	}
	if longest := resourcev1.NetworkDeviceDataInterfaceNameMaxLength; len(d.InterfaceName) > longest {
		all = append(all, field.TooLong(at.Child("interfaceName"), "", longest))
	}
	if longest := resourcev1.NetworkDeviceDataHardwareAddressMaxLength; len(d.HardwareAddress) > longest {
		all = append(all, field.TooLong(at.Child("hardwareAddress"), "", longest))
	}
	ips := at.Child("ips")
	all = append(all, validateEach(d.IPs, resourcev1.NetworkDeviceDataMaxIPs, ips, func(ip *string, at *field.Path) field.ErrorList {
		return validation.IsValidInterfaceAddress(at, *ip)
	})...)
	return append(all, validateUnique(d.IPs, ips, itself[string])...)
}

// validateBindingConditions requires conditions of both types, binding and failure, or none.
func validateBindingConditions(ready, failed []string, at *field.Path) (all field.ErrorList) {
	yes, no := at.Child("bindingConditions"), at.Child("bindingFailureConditions")
	name := func(s *string, at *field.Path) field.ErrorList { return metav1validation.ValidateLabelName(*s, at) }
	all = append(all, validateEach(ready, resourcev1.BindingConditionsMaxSize, yes, name)...)
	all = append(all, validateEach(failed, resourcev1.BindingFailureConditionsMaxSize, no, name)...)
	all = append(all, validateUnique(ready, yes, itself[string])...)
	all = append(all, validateUnique(failed, no, itself[string])...)
	for i, c := range failed {
		if slices.Contains(ready, c) {
			all = append(all, field.Invalid(no.Index(i), c, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	const both = "%s are required to use %s"
	if len(ready) == 0 && len(failed) > 0 {
		all = append(all, field.Invalid(yes, ready, fmt.Sprintf(both, "bindingConditions", "bindingFailureConditions")))
	}
	if len(failed) == 0 && len(ready) > 0 {
		all = append(all, field.Invalid(no, failed, fmt.Sprintf(both, "bindingFailureConditions", "bindingConditions")))
	}
	return all
}
