package devices

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateResourceSlice(s, old *resourcev1.ResourceSlice) field.ErrorList {
	spec, at := &s.Spec, field.NewPath("spec")
	all := validateDeviceDriver(spec.Driver, at.Child("driver"))
	all = append(all, validateDevicePool(spec.Pool.Name, at.Child("pool", "name"))...)
	if n := spec.Pool.ResourceSliceCount; n <= 0 {
		all = append(all, field.Invalid(at.Child("pool", "resourceSliceCount"), n, "must be greater than zero"))
	}
	if n := spec.Pool.Generation; n < 0 {
		all = append(all, field.Invalid(at.Child("pool", "generation"), n, "must be greater than or equal to zero"))
	}
	if old != nil {
		all = append(all, rule.ValidateImmutable(spec.Pool.Name, old.Spec.Pool.Name, at.Child("pool", "name"))...)
		all = append(all, rule.ValidateImmutable(spec.Driver, old.Spec.Driver, at.Child("driver"))...)
		all = append(all, rule.ValidateImmutable(spec.NodeName, old.Spec.NodeName, at.Child("nodeName"))...)
	}
	all = append(all, validateSliceNodes(spec, at)...)
	if spec.SharedCounters != nil && spec.Devices != nil {
		all = append(all, field.Invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	perDevice := rule.IsTrue(spec.PerDeviceNodeSelection)
	devices := at.Child("devices")
	all = append(all, validateEach(spec.Devices, mostDevices(spec), devices, func(d *resourcev1.Device, at *field.Path) field.ErrorList {
		return validateDevice(d, deviceNamed(old, d.Name), perDevice, at)
	})...)
	all = append(all, validateUniqueNames(spec.Devices, devices)...)
	counters := at.Child("sharedCounters")
	all = append(all, validateEach(spec.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, counters, func(c *resourcev1.CounterSet, at *field.Path) field.ErrorList {
		return validateCounters(c.Name, at.Child("name"), c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, at.Child("counters"))
	})...)
	return append(all, validateUnique(spec.SharedCounters, counters, func(c *resourcev1.CounterSet) string { return c.Name })...)
}

func validateUniqueNames(devices []resourcev1.Device, at *field.Path) (all field.ErrorList) {
	seen := map[string]bool{}
	for i, d := range devices {
		if seen[d.Name] {
			all = append(all, field.Duplicate(at.Index(i), d.Name))
		}
		seen[d.Name] = true
	}
	return all
}

// mostDevices returns the limit of devices in a slice, which is lower for slices with taints or
// counters.
func mostDevices(spec *resourcev1.ResourceSliceSpec) int {
	hasMore := func(d resourcev1.Device) bool { return len(d.Taints)+len(d.ConsumesCounters) > 0 }
	if slices.ContainsFunc(spec.Devices, hasMore) {
		return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourcev1.ResourceSliceMaxDevices
}

func deviceNamed(s *resourcev1.ResourceSlice, name string) *resourcev1.Device {
	if s == nil {
		return nil
	}
	for i := range s.Spec.Devices {
		if s.Spec.Devices[i].Name == name {
			return &s.Spec.Devices[i]
		}
	}
	return nil
}

// validateSliceNodes requires exactly one of the fields that select the nodes which can access the
// devices.
func validateSliceNodes(spec *resourcev1.ResourceSliceSpec, at *field.Path) (all field.ErrorList) {
	var set []string
	if name := spec.NodeName; name != nil && *name == "" {
		all = append(all, field.Invalid(at.Child("nodeName"), *name, "must be either unset or set to a non-empty string"))
	} else if name != nil {
		set = append(set, "`nodeName`")
		all = append(all, rule.Invalid(at.Child("nodeName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if s := spec.NodeSelector; s != nil {
		set = append(set, "`nodeSelector`")
		terms := at.Child("nodeSelector", "nodeSelectorTerms")
		if len(s.NodeSelectorTerms) == 0 {
			all = append(all, field.Required(terms, "must have at least one node selector term"))
		}
		if len(s.NodeSelectorTerms) != 1 {
			all = append(all, field.Invalid(terms, rule.AsInternal(s.NodeSelectorTerms), "must have exactly one node selector term"))
		}
	}
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"allNodes", spec.AllNodes}, {"perDeviceNodeSelection", spec.PerDeviceNodeSelection}} {
		if rule.IsTrue(flag.value) {
			set = append(set, "`"+flag.name+"`")
		} else if flag.value != nil {
			all = append(all, field.Invalid(at.Child(flag.name), false, "must be either unset or set to true"))
		}
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch len(set) {
	case 0:
		all = append(all, field.Required(at, one))
	case 1:
	default:
		all = append(all, field.Invalid(at, "{"+strings.Join(set, ", ")+"}", one+", but multiple fields are set"))
	}
	return all
}

func validateDevice(d, old *resourcev1.Device, perDevice bool, at *field.Path) field.ErrorList {
	all := rule.ValidateLabel(at.Child("name"), d.Name)
	if n, most := len(d.Attributes)+len(d.Capacity), resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > most {
		all = append(all, field.Invalid(at, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", most)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		attribute := d.Attributes[name]
		all = append(all, validateAttributeName(string(name), at.Child("attributes"))...)
		all = append(all, validateAttribute(&attribute, at.Child("attributes").Key(string(name)))...)
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Capacity, d.Capacity) {
		for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
			all = append(all, validateAttributeName(string(name), at.Child("capacity"))...)
			if d.Capacity[name].RequestPolicy != nil && !rule.IsTrue(d.AllowMultipleAllocations) {
				all = append(all, field.Forbidden(at.Child("capacity").Key(string(name)).Child("requestPolicy"), "allowMultipleAllocations must be true"))
			}
		}
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Taints, d.Taints) {
		all = append(all, validateEach(d.Taints, resourcev1.DeviceTaintsMaxLength, at.Child("taints"), func(t *resourcev1.DeviceTaint, at *field.Path) field.ErrorList {
			return validateDeviceTaint(t, nil, at)
		})...)
	}
	consumed := at.Child("consumesCounters")
	all = append(all, validateEach(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, consumed, func(c *resourcev1.DeviceCounterConsumption, at *field.Path) field.ErrorList {
		return validateCounters(c.CounterSet, at.Child("counterSet"), c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, at.Child("counters"))
	})...)
	all = append(all, validateDeviceNodes(d, perDevice, at)...)
	return append(all, validateBindingConditions(d.BindingConditions, d.BindingFailureConditions, at)...)
}

// validateDeviceNodes requires nodes per device if, and only if, the slice has
// perDeviceNodeSelection.
func validateDeviceNodes(d *resourcev1.Device, perDevice bool, at *field.Path) (all field.ErrorList) {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return field.ErrorList{field.Invalid(at, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")}
		}
		return nil
	}
	var set []string
	if name := d.NodeName; name != nil && *name == "" {
		all = append(all, field.Invalid(at.Child("nodeName"), *name, "must not be empty"))
	} else if name != nil {
		set = append(set, "`nodeName`")
		all = append(all, rule.Invalid(at.Child("nodeName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if d.NodeSelector != nil {
		set = append(set, "`nodeSelector`")
	}
	if rule.IsTrue(d.AllNodes) {
		set = append(set, "`allNodes`")
	} else if d.AllNodes != nil {
		all = append(all, field.Invalid(at.Child("allNodes"), false, "must be either unset or set to true"))
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	switch len(set) {
	case 0:
		all = append(all, field.Required(at, one))
	case 1:
	default:
		all = append(all, field.Invalid(at, "{"+strings.Join(set, ", ")+"}", one))
	}
	return all
}

func validateCounters(set string, name *field.Path, counters map[string]resourcev1.Counter, most int, at *field.Path) (all field.ErrorList) {
	if set == "" {
		all = append(all, field.Required(name, ""))
	} else {
		all = append(all, rule.ValidateLabel(name, set)...)
	}
	switch {
	case len(counters) == 0:
		return append(all, field.Required(at, ""))
	case len(counters) > most:
		return append(all, field.TooMany(at, len(counters), most))
	}
	for _, counter := range slices.Sorted(maps.Keys(counters)) {
		all = append(all, rule.ValidateLabel(at, counter)...)
	}
	return all
}

// semver is the grammar of semver.org.
var semver = rule.Pattern(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

func validateAttribute(a *resourcev1.DeviceAttribute, at *field.Path) (all field.ErrorList) {
	const longest = resourcev1.DeviceAttributeMaxValueLength
	if s := a.StringValue; s != nil && len(*s) > longest {
		all = append(all, field.TooLong(at.Child("string"), "", longest))
	}
	if v := a.VersionValue; v != nil {
		if !semver().MatchString(*v) {
			all = append(all, field.Invalid(at.Child("version"), *v, "must be a string compatible with semver.org spec 2.0.0"))
		}
		if len(*v) > longest {
			all = append(all, field.TooLong(at.Child("version"), "", longest))
		}
	}
	var set []string
	for _, value := range []struct {
		name string
		set  bool
	}{{"int", a.IntValue != nil}, {"bool", a.BoolValue != nil}, {"string", a.StringValue != nil}, {"version", a.VersionValue != nil}} {
		if value.set {
			set = append(set, value.name)
		}
	}
	const kinds = "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	switch len(set) {
	case 0:
		all = append(all, field.Invalid(at, "", "must specify "+kinds))
	case 1:
	default:
		all = append(all, field.Invalid(at, "{"+strings.Join(set, ", ")+"}", "must specify exactly "+kinds))
	}
	return all
}
