package certificates

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/resource"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Kinds returns the kinds of group certificates.k8s.io.
func Kinds() []kind.Row {
	v1 := certificatesv1.SchemeGroupVersion
	return []kind.Row{
		signingRequests(),
		kind.Kind[*certificatesv1.ClusterTrustBundle]{
			Version:       v1,
			Plural:        "clustertrustbundles",
			ClusterScoped: true,
			Validate:      validateClusterTrustBundle,
			Table:         clusterTrustBundlesTable(),
			Selectable:    []kind.Selectable{kind.At("spec.signerName")},
			Versioned:     true,
			// Names start with that of the signer, see problemsOfBundleName.
			Strategy: resource.Strategy{ValidateName: path.ValidatePathSegmentName},
		}.Row(),
		kind.Kind[*certificatesv1.PodCertificateRequest]{
			Version:    v1,
			Plural:     "podcertificaterequests",
			Filled:     true,
			Validate:   validatePodCertificateRequest,
			Status:     &kind.Status[*certificatesv1.PodCertificateRequest]{Validate: validatePodCertificateRequestStatus, Keeps: kind.ClientMetadata},
			Table:      podCertificateRequestsTable(),
			Selectable: []kind.Selectable{kind.At("spec.signerName"), kind.At("spec.podName"), kind.At("spec.nodeName")},
			Versioned:  true,

			NotByNamespace: true,
			Strategy:       resource.Strategy{Permit: permitSigning},
		}.Row(),
	}
}

// signingRequests returns the kind CertificateSigningRequest. The request is immutable; approvers
// write the conditions through approval, signers the certificate through status.
func signingRequests() kind.Row {
	return kind.Kind[*certificatesv1.CertificateSigningRequest]{
		Version:       certificatesv1.SchemeGroupVersion,
		Plural:        "certificatesigningrequests",
		ShortNames:    []string{"csr"},
		ClusterScoped: true,
		Validate:      validateCertificateSigningRequest,
		Resets:        []string{"spec", "status"},
		PrepareCreate: func(obj resource.Tree) {
			for _, name := range []string{"username", "uid", "groups", "extra"} { // are set by the server
				kind.Drop(obj, "spec", name)
			}
			obj["status"] = resource.Tree{}
		},
		PrepareUpdate: func(obj, old resource.Tree) {
			kind.Keep(obj, old, "spec")
			kind.Keep(obj, old, "status")
		},
		Subresources: []kind.Subresource[*certificatesv1.CertificateSigningRequest]{
			{Subresource: resource.Subresource{
				Name:        "status",
				ResetFields: fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "conditions")),
				Prepare: func(obj, old resource.Tree) {
					kind.Keep(obj, old, "spec")
					keepVerdict(obj, old)
					dateConditions(obj, old)
				},
			}, Validate: validateCertificateSigningRequestStatus},
			{Subresource: resource.Subresource{
				Name:        "approval",
				ResetFields: fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "certificate")),
				Prepare: func(obj, old resource.Tree) {
					dateConditions(obj, old)
					kind.Keep(obj, old, "spec")
					kind.Keep(obj, old, "status", "certificate")
				},
			}, Validate: validateCertificateSigningRequestApproval},
		},
		Table:      certificateSigningRequestsTable(),
		Selectable: []kind.Selectable{kind.At("spec.signerName")},
		Strategy:   resource.Strategy{ValidateName: func(string, bool) []string { return nil }, PrepareRequester: requester},
	}.Row()
}

// requester sets the user who creates a request.
func requester(obj resource.Tree, by resource.User) {
	u := authn.Of(by)
	kind.Put(obj, u.Name, "spec", "username")
	if u.UID != "" {
		kind.Put(obj, u.UID, "spec", "uid")
	}
	if len(u.Groups) > 0 {
		kind.Put(obj, kind.ToAny(u.Groups), "spec", "groups")
	}
	if len(u.Extra) > 0 {
		extra := resource.Tree{}
		for key, values := range u.Extra {
			extra[key] = kind.ToAny(values)
		}
		kind.Put(obj, extra, "spec", "extra")
	}
}

// keepVerdict restores the conditions Approved and Denied. Validation reports added and removed
// ones.
func keepVerdict(obj, old resource.Tree) {
	for _, verdict := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		now, before := conditionsOf(obj, string(verdict)), conditionsOf(old, string(verdict))
		if len(now) != len(before) {
			continue
		}
		for i := range now {
			clear(now[i])
			for key, value := range before[i] {
				now[i][key] = value
			}
		}
	}
}

// conditionsOf returns the conditions of a type in the status of an object.
func conditionsOf(obj resource.Tree, of string) []resource.Tree {
	var found []resource.Tree
	all, _ := kind.Get(obj, "status", "conditions").([]any)
	for _, c := range all {
		if c, ok := c.(resource.Tree); ok && kind.Text(c, "type") == of {
			found = append(found, c)
		}
	}
	return found
}

// dateConditions sets missing transition and update times of conditions.
func dateConditions(obj, old resource.Tree) {
	now := time.Now().UTC().Format(time.RFC3339)
	all, _ := kind.Get(obj, "status", "conditions").([]any)
	for _, c := range all {
		c, ok := c.(resource.Tree)
		if !ok {
			continue
		}
		if kind.Text(c, "lastUpdateTime") == "" {
			c["lastUpdateTime"] = now
		}
		if kind.Text(c, "lastTransitionTime") != "" {
			continue
		}
		c["lastTransitionTime"] = now
		for _, before := range conditionsOf(old, kind.Text(c, "type")) {
			if since := kind.Text(before, "lastTransitionTime"); since != "" && kind.Text(before, "status") == kind.Text(c, "status") {
				c["lastTransitionTime"] = since
				break
			}
		}
	}
}

// permitSigning implements Strategy.Permit for PodCertificateRequests: a user who writes the status
// must have the verb sign on the signer. For other requests, an admission plugin checks it.
func permitSigning(ctx context.Context, _ *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	now, _ := kind.Get(obj, "status").(resource.Tree)
	before, _ := kind.Get(old, "status").(resource.Tree)
	if r.Subresource != "status" || equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	signer := kind.Text(old, "spec", "signerName")
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		err := users.Of(r).Permit(ctx, r, &authz.Attributes{
			Verb: "sign", ResourceRequest: true, APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", Name: name,
		})
		if err == nil {
			return nil
		}
	}
	text := fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", r.User.GetName(), signer)
	return causes.Invalid(schema.GroupKind{Group: certificatesv1.GroupName, Kind: "PodCertificateRequest"}, r.Name,
		field.ErrorList{field.Forbidden(field.NewPath("spec", "signerName"), text)})
}
