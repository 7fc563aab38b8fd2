package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// The status of a ResourceClaim has several writers, and permission to update the status is not
// permission to update all of it: schedulers need the verb on resourceclaims/binding to change the
// allocation, drivers need it on resourceclaims/driver, with the name of the driver, to change the
// state of devices. The source is k8s.io/kubernetes/pkg/registry/resource.

// permitClaimStatus implements Strategy.Permit for ResourceClaims.
func permitClaimStatus(ctx context.Context, s *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	return permitClaim(ctx, s, r, obj, old, func(w *claimWriter) field.ErrorList { return append(append(w.admin(), w.binding()...), w.devices()...) })
}

// PermitAdminAccess is the Permit of ResourceClaims while permission to update the status is
// permission to update all of it except admin access.
func PermitAdminAccess(ctx context.Context, s *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	return permitClaim(ctx, s, r, obj, old, (*claimWriter).admin)
}

func permitClaim(ctx context.Context, s *resource.Store, r *resource.Request, obj, old resource.Tree, check func(w *claimWriter) field.ErrorList) error {
	if r.Subresource != "status" {
		return nil
	}
	obj = runtime.DeepCopyJSON(obj)
	forgetDevices(obj, old)
	w := claimWriter{ctx: ctx, store: s, request: r, verb: "update", now: &kind.Decoded[resourcev1.ResourceClaim](obj).Status, before: &kind.Decoded[resourcev1.ResourceClaim](old).Status}
	if _, patches := r.Options.(*metav1.PatchOptions); patches {
		w.verb = "patch"
	}
	problems := check(&w)
	if len(problems) == 0 {
		return nil
	}
	return causes.Invalid(resourcev1.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), r.Name, problems)
}

// claimWriter is the user who writes the status of a claim.
type claimWriter struct {
	ctx         context.Context
	store       *resource.Store
	request     *resource.Request
	verb        string
	now, before *resourcev1.ResourceClaimStatus
}

// admin is refuseAdmin for allocations, except those with admin access before.
func (w *claimWriter) admin() field.ErrorList {
	if firstAdmin(w.before) >= 0 {
		return nil
	}
	i := firstAdmin(w.now)
	if i < 0 || forAdmins(w.store.State(), w.request.Namespace) {
		return nil
	}
	return field.ErrorList{noAdmin(field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess"))}
}

// firstAdmin returns the index of the first result with admin access, -1 if there is none.
func firstAdmin(status *resourcev1.ResourceClaimStatus) int {
	if status.Allocation == nil {
		return -1
	}
	return slices.IndexFunc(status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.AdminAccess != nil && *r.AdminAccess
	})
}

func (w *claimWriter) binding() field.ErrorList {
	if equality.Semantic.DeepEqual(w.now.Allocation, w.before.Allocation) && equality.Semantic.DeepEqual(w.now.ReservedFor, w.before.ReservedFor) {
		return nil
	}
	err := w.permit(w.verb, resourcev1.SubresourceBinding, "", "") // the verb for claims of all namespaces
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("status", "allocation"), fmt.Sprintf(
		`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, w.verb, err))}
}

func (w *claimWriter) devices() (problems field.ErrorList) {
	if w.now.Allocation == nil {
		return nil // in this case the update drops devices
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + w.verb}
	if w.onNode() {
		verbs = append([]string{resourcev1.VerbPrefixAssociatedNode + w.verb}, verbs...)
	}
	for _, driver := range w.drivers() {
		var first error
		for _, verb := range verbs {
			err := w.permit(verb, resourcev1.SubresourceDriver, w.request.Namespace, driver)
			if err == nil {
				first = nil
				break
			}
			if first == nil {
				first = err
			}
		}
		if first != nil {
			problems = append(problems, field.Forbidden(field.NewPath("status", "devices"), fmt.Sprintf(
				`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, first)))
		}
	}
	return problems
}

// drivers returns the sorted names of drivers whose devices' state has changed.
func (w *claimWriter) drivers() []string {
	type key struct{ driver, pool, device, share string }
	keyOf := func(d *resourcev1.AllocatedDeviceStatus) key {
		k := key{driver: d.Driver, pool: d.Pool, device: d.Device}
		if d.ShareID != nil {
			k.share = *d.ShareID
		}
		return k
	}
	before := map[key]*resourcev1.AllocatedDeviceStatus{}
	for i := range w.before.Devices {
		before[keyOf(&w.before.Devices[i])] = &w.before.Devices[i]
	}
	changed := map[string]bool{}
	for i := range w.now.Devices {
		d := &w.now.Devices[i]
		old := before[keyOf(d)]
		delete(before, keyOf(d))
		if old == nil || !equality.Semantic.DeepEqual(old, d) {
			changed[d.Driver] = true
		}
	}
	for k := range before {
		changed[k.driver] = true
	}
	return slices.Sorted(maps.Keys(changed))
}

// onNode reports whether the writer is the service account of a pod on the only node that the claim
// is allocated to.
func (w *claimWriter) onNode() bool {
	u, at := authn.Of(w.request.User), w.now.Allocation.NodeSelector
	if _, _, err := serviceaccount.SplitUsername(u.Name); err != nil || at == nil || len(at.NodeSelectorTerms) != 1 {
		return false
	}
	term := at.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return false
	}
	f, nodes := term.MatchFields[0], u.Extra[serviceaccount.NodeNameKey]
	return f.Key == "metadata.name" && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 && f.Values[0] != "" && slices.Equal(nodes, f.Values)
}

// permit authorizes a verb on a subresource that exists only for authorization.
func (w *claimWriter) permit(verb, subresource, namespace, name string) error {
	d := w.request.Definition
	return users.Of(w.request).Permit(w.ctx, w.request, &authz.Attributes{
		Verb: verb, ResourceRequest: true, APIGroup: d.Group, APIVersion: w.request.Version.Name, Resource: d.Plural, Subresource: subresource,
		Namespace: namespace, Name: name,
	})
}
