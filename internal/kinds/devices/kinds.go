package devices

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kinds returns the kinds of group resource.k8s.io.
func Kinds() []kind.Row {
	v1 := resourcev1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*resourcev1.DeviceClass]{
			Version:         v1,
			Plural:          "deviceclasses",
			ClusterScoped:   true,
			ValidateContext: validateDeviceClass,
			Generation:      []string{"spec"},
			Table:           deviceClassesTable(),
			Deletion:        resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*resourcev1.ResourceClaim]{
			Version:         v1,
			Plural:          "resourceclaims",
			Filled:          true,
			ValidateContext: validateResourceClaim,
			Status: &kind.Status[*resourcev1.ResourceClaim]{
				Validate: validateResourceClaimStatus,
				Keeps:    kind.ClientMetadata,
				Prepare: func(obj, old resource.Tree) {
					forgetDevices(obj, old)
					eachOf(kind.Get(obj, "status", "allocation", "devices", "results"), func(r resource.Tree) { delete(r, "skipNodeOperations") })
				},
			},
			PrepareCreate: func(obj resource.Tree) { dropDerived(obj, "spec") },
			PrepareUpdate: func(obj, _ resource.Tree) { dropDerived(obj, "spec") },
			Table:         resourceClaimsTable(),
			Strategy:      resource.Strategy{Claim: refuseAdmin, Permit: permitClaimStatus},
			Deletion:      resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*resourcev1.ResourceClaimTemplate]{
			Version:         v1,
			Plural:          "resourceclaimtemplates",
			Filled:          true,
			ValidateContext: validateResourceClaimTemplate,
			PrepareCreate:   func(obj resource.Tree) { dropDerived(obj, "spec", "spec") },
			PrepareUpdate:   func(obj, _ resource.Tree) { dropDerived(obj, "spec", "spec") },
			Table:           resourceClaimTemplatesTable(),
			Strategy:        resource.Strategy{Claim: refuseAdminTemplate},
			Deletion:        resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*resourcev1.ResourceSlice]{
			Version:       v1,
			Plural:        "resourceslices",
			Unselectable:  "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: %s",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateResourceSlice,
			Generation:    []string{"spec"},
			PrepareCreate: dropUnfinished,
			PrepareUpdate: func(obj, _ resource.Tree) { dropUnfinished(obj) },
			Table:         resourceSlicesTable(),
			Selectable:    []kind.Selectable{kind.At("spec.nodeName"), kind.At("spec.driver"), kind.At("spec.pool.name")},
			Strategy:      resource.Strategy{Warnings: warnOfDriver},
			Deletion:      resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*resourcev1.DeviceTaintRule]{
			Version:       v1,
			Plural:        "devicetaintrules",
			ClusterScoped: true,
			Filled:        true,
			Validate:      validateDeviceTaintRule,
			Status:        &kind.Status[*resourcev1.DeviceTaintRule]{Validate: validateDeviceTaintRuleStatus, Keeps: kind.ClientMetadata},
			Generation:    []string{"spec"},
			PrepareUpdate: dateTaint,
			Table:         deviceTaintRulesTable(),
			Versioned:     true,
		}.Row(),
	}
}

// warnOfDriver warns of capitals in driver names, which are compared without regard to case.
func warnOfDriver(obj, _ resource.Tree) []string {
	driver := kind.Text(obj, "spec", "driver")
	if driver == strings.ToLower(driver) {
		return nil
	}
	return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)}
}

// The functions below drop fields of features that are off by default in Kubernetes.

// dropDerived drops fields derived from the attributes of devices.
func dropDerived(obj resource.Tree, path ...string) {
	eachOf(kind.Get(obj, append(path, "devices", "requests")...), func(request resource.Tree) {
		kind.Drop(request, "exactly", "derivedAttributes")
		eachOf(request["firstAvailable"], func(sub resource.Tree) { delete(sub, "derivedAttributes") })
	})
}

func dropUnfinished(slice resource.Tree) {
	kind.Drop(slice, "spec", "partitionTypeAttribute")
	kind.Drop(slice, "spec", "skipNodeOperations")
	eachOf(kind.Get(slice, "spec", "devices"), func(device resource.Tree) {
		delete(device, "nodeAllocatableResources")
		eachOf(device["consumesCounters"], func(c resource.Tree) { delete(c, "compatibilityGroups") })
		attributes, _ := device["attributes"].(resource.Tree)
		for _, a := range attributes {
			if a, ok := a.(resource.Tree); ok {
				for _, list := range []string{"bools", "ints", "strings", "versions"} {
					delete(a, list)
				}
			}
		}
	})
}

func eachOf(list any, do func(resource.Tree)) {
	elements, _ := list.([]any)
	for _, e := range elements {
		if e, ok := e.(resource.Tree); ok {
			do(e)
		}
	}
}

// dateTaint sets the time of a new or changed taint, unless the client does.
func dateTaint(obj, old resource.Tree) {
	at := []string{"spec", "taint", "timeAdded"}
	if kind.Text(obj, "spec", "taint", "effect") != kind.Text(old, "spec", "taint", "effect") && kind.Text(obj, at...) == kind.Text(old, at...) {
		kind.Put(obj, time.Now().UTC().Format(time.RFC3339), at...)
	}
}

// forgetDevices removes the state of devices that are no longer allocated.
func forgetDevices(obj, old resource.Tree) {
	now, before := allocatedDevices(obj), allocatedDevices(old)
	devices, _ := kind.Get(obj, "status", "devices").([]any)
	var kept []any
	for _, d := range devices {
		if id := deviceID(d); now[id] || !before[id] {
			kept = append(kept, d)
		}
	}
	if len(kept) == 0 {
		kind.Drop(obj, "status", "devices")
	} else {
		kind.Put(obj, kept, "status", "devices")
	}
}

func allocatedDevices(obj resource.Tree) map[[4]string]bool {
	results, _ := kind.Get(obj, "status", "allocation", "devices", "results").([]any)
	found := map[[4]string]bool{}
	for _, r := range results {
		found[deviceID(r)] = true
	}
	return found
}

func deviceID(d any) [4]string {
	tree, _ := d.(resource.Tree)
	return [4]string{kind.Text(tree, "driver"), kind.Text(tree, "pool"), kind.Text(tree, "device"), kind.Text(tree, "shareID")}
}

// refuseAdmin rejects admin access to devices, which ignores other users of a device, in namespaces
// without the label for it.
func refuseAdmin(c *resource.Claims, obj, old resource.Tree) error {
	if old != nil || obj == nil {
		return nil
	}
	return refuseAdminRequests(c.State(), "ResourceClaim", obj, kind.Decoded[resourcev1.ResourceClaim](obj).Spec)
}

// refuseAdminTemplate is refuseAdmin for templates.
func refuseAdminTemplate(c *resource.Claims, obj, old resource.Tree) error {
	if old != nil || obj == nil {
		return nil
	}
	return refuseAdminRequests(c.State(), "ResourceClaimTemplate", obj, kind.Decoded[resourcev1.ResourceClaimTemplate](obj).Spec.Spec)
}

func refuseAdminRequests(s *state.State, kindName string, obj resource.Tree, spec resourcev1.ResourceClaimSpec) error {
	i := slices.IndexFunc(spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	})
	if i < 0 || forAdmins(s, kind.Text(obj, "metadata", "namespace")) {
		return nil
	}
	at := field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess")
	return causes.Invalid(resourcev1.SchemeGroupVersion.WithKind(kindName).GroupKind(), kind.Text(obj, "metadata", "name"), field.ErrorList{noAdmin(at)})
}

// forAdmins reports whether a namespace has the label for admin access.
func forAdmins(s *state.State, namespace string) bool {
	ns, _ := s.Get(object.Key{Resource: schema.GroupResource{Resource: "namespaces"}, Name: namespace})
	if ns == nil {
		return false
	}
	allowed, _ := ns.Meta.Labels.Lookup(resourcev1.DRAAdminNamespaceLabelKey)
	return allowed == "true"
}

func noAdmin(at *field.Path) *field.Error {
	return field.Forbidden(at, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))
}
