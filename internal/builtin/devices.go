package builtin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// devices is the group resource.k8s.io: which devices there are, and who claims them.
func devices() []row {
	v1 := resourcev1.SchemeGroupVersion
	return []row{
		kind[resourcev1.DeviceClass]{
			version:       v1,
			plural:        "deviceclasses",
			clusterScoped: true,
			validate:      validation.DeviceClass,
			generation:    []string{"spec"},
			table:         tables.DeviceClasses(),
			hooks:         resource.Hooks{DeleteReturnsObject: true},
		}.row(),
		kind[resourcev1.ResourceClaim]{
			version:  v1,
			plural:   "resourceclaims",
			defaults: fill[resourcev1.ResourceClaim],
			validate: validation.ResourceClaim,
			status: &status[resourcev1.ResourceClaim]{
				validate: validation.ResourceClaimStatus,
				keeps:    clientMetadata,
				prepare: func(obj, old resource.Tree) {
					forgetDevices(obj, old)
					eachOf(get(obj, "status", "allocation", "devices", "results"), func(r resource.Tree) { delete(r, "skipNodeOperations") })
				},
			},
			prepareCreate: func(obj resource.Tree) { dropDerived(obj, "spec") },
			prepareUpdate: func(obj, _ resource.Tree) { dropDerived(obj, "spec") },
			table:         tables.ResourceClaims(),
			hooks:         resource.Hooks{DeleteReturnsObject: true, Claim: refuseAdmin, Permit: permitClaimStatus},
		}.row(),
		kind[resourcev1.ResourceClaimTemplate]{
			version:       v1,
			plural:        "resourceclaimtemplates",
			defaults:      fill[resourcev1.ResourceClaimTemplate],
			validate:      validation.ResourceClaimTemplate,
			prepareCreate: func(obj resource.Tree) { dropDerived(obj, "spec", "spec") },
			prepareUpdate: func(obj, _ resource.Tree) { dropDerived(obj, "spec", "spec") },
			table:         tables.ResourceClaimTemplates(),
			hooks:         resource.Hooks{DeleteReturnsObject: true, Claim: refuseAdminTemplate},
		}.row(),
		kind[resourcev1.ResourceSlice]{
			version:       v1,
			plural:        "resourceslices",
			unselectable:  "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: %s",
			clusterScoped: true,
			defaults:      fill[resourcev1.ResourceSlice],
			validate:      validation.ResourceSlice,
			generation:    []string{"spec"},
			prepareCreate: dropUnfinished,
			prepareUpdate: func(obj, _ resource.Tree) { dropUnfinished(obj) },
			table:         tables.ResourceSlices(),
			selectable:    []selectable{at("spec.nodeName"), at("spec.driver"), at("spec.pool.name")},
			hooks:         resource.Hooks{DeleteReturnsObject: true, Warnings: warnOfDriver},
		}.row(),
		kind[resourcev1.DeviceTaintRule]{
			version:       v1,
			plural:        "devicetaintrules",
			clusterScoped: true,
			defaults:      fill[resourcev1.DeviceTaintRule],
			validate:      validation.DeviceTaintRule,
			status:        &status[resourcev1.DeviceTaintRule]{validate: validation.DeviceTaintRuleStatus, keeps: clientMetadata},
			generation:    []string{"spec"},
			prepareUpdate: dateTaint,
			table:         tables.DeviceTaintRules(),
			versioned:     true,
		}.row(),
	}
}

// warnOfDriver warns of names that are compared without regard to case.
func warnOfDriver(obj, _ resource.Tree) []string {
	driver := text(obj, "spec", "driver")
	if driver == strings.ToLower(driver) {
		return nil
	}
	return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)}
}

// What follows drops fields whose features are off in Kubernetes unless asked for.

// dropDerived drops what is derived from the attributes of devices.
func dropDerived(obj resource.Tree, path ...string) {
	eachOf(get(obj, append(path, "devices", "requests")...), func(request resource.Tree) {
		drop(request, "exactly", "derivedAttributes")
		eachOf(request["firstAvailable"], func(sub resource.Tree) { delete(sub, "derivedAttributes") })
	})
}

func dropUnfinished(slice resource.Tree) {
	drop(slice, "spec", "partitionTypeAttribute")
	drop(slice, "spec", "skipNodeOperations")
	eachOf(get(slice, "spec", "devices"), func(device resource.Tree) {
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

// dateTaint says since when a taint has its effect, unless the client does.
func dateTaint(obj, old resource.Tree) {
	at := []string{"spec", "taint", "timeAdded"}
	if text(obj, "spec", "taint", "effect") != text(old, "spec", "taint", "effect") && text(obj, at...) == text(old, at...) {
		put(obj, time.Now().UTC().Format(time.RFC3339), at...)
	}
}

// forgetDevices removes what was said of devices that a claim has given back.
func forgetDevices(obj, old resource.Tree) {
	now, before := allocatedDevices(obj), allocatedDevices(old)
	devices, _ := get(obj, "status", "devices").([]any)
	var kept []any
	for _, d := range devices {
		if id := deviceID(d); now[id] || !before[id] {
			kept = append(kept, d)
		}
	}
	if len(kept) == 0 {
		drop(obj, "status", "devices")
	} else {
		put(obj, kept, "status", "devices")
	}
}

func allocatedDevices(obj resource.Tree) map[[4]string]bool {
	results, _ := get(obj, "status", "allocation", "devices", "results").([]any)
	found := map[[4]string]bool{}
	for _, r := range results {
		found[deviceID(r)] = true
	}
	return found
}

func deviceID(d any) [4]string {
	tree, _ := d.(resource.Tree)
	return [4]string{text(tree, "driver"), text(tree, "pool"), text(tree, "device"), text(tree, "shareID")}
}

// refuseAdmin lets devices that others use be looked at only from namespaces that
// are meant for it.
func refuseAdmin(c *resource.Claims, obj, old resource.Tree) error {
	if old != nil || obj == nil {
		return nil
	}
	return refuseAdminRequests(c.State(), "ResourceClaim", obj, decoded[resourcev1.ResourceClaim](obj).Spec)
}

// refuseAdminTemplate is refuseAdmin of templates.
func refuseAdminTemplate(c *resource.Claims, obj, old resource.Tree) error {
	if old != nil || obj == nil {
		return nil
	}
	return refuseAdminRequests(c.State(), "ResourceClaimTemplate", obj, decoded[resourcev1.ResourceClaimTemplate](obj).Spec.Spec)
}

func refuseAdminRequests(s *state.State, kind string, obj resource.Tree, spec resourcev1.ResourceClaimSpec) error {
	i := slices.IndexFunc(spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	})
	if i < 0 || forAdmins(s, text(obj, "metadata", "namespace")) {
		return nil
	}
	at := field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess")
	return apierrors.NewInvalid(resourcev1.SchemeGroupVersion.WithKind(kind).GroupKind(), text(obj, "metadata", "name"), field.ErrorList{noAdmin(at)})
}

// forAdmins says whether a namespace is meant for looking at devices that others use.
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
