package builtin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// certificates is the group of who is vouched for by whom.
func certificates() []row {
	v1 := certificatesv1.SchemeGroupVersion
	return []row{
		signingRequests(),
		kind[certificatesv1.ClusterTrustBundle]{
			version:       v1,
			plural:        "clustertrustbundles",
			clusterScoped: true,
			validate:      validation.ClusterTrustBundle,
			table:         tables.ClusterTrustBundles(),
			selectable:    []selectable{at("spec.signerName")},
			versioned:     true,
			// Names begin with that of the signer, see validation.
			hooks: resource.Hooks{ValidateName: path.ValidatePathSegmentName},
		}.row(),
		kind[certificatesv1.PodCertificateRequest]{
			version:    v1,
			plural:     "podcertificaterequests",
			defaults:   fill[certificatesv1.PodCertificateRequest],
			validate:   validation.PodCertificateRequest,
			status:     &status[certificatesv1.PodCertificateRequest]{validate: validation.PodCertificateRequestStatus, keeps: clientMetadata},
			table:      tables.PodCertificateRequests(),
			selectable: []selectable{at("spec.signerName"), at("spec.podName"), at("spec.nodeName")},
			versioned:  true,

			notByNamespace: true,
			hooks:          resource.Hooks{Permit: permitSigning},
		}.row(),
	}
}

// signingRequests are requests for certificates. What is asked for does not change;
// the answer is written in two parts, by who approves and by who signs.
func signingRequests() row {
	return kind[certificatesv1.CertificateSigningRequest]{
		version:       certificatesv1.SchemeGroupVersion,
		plural:        "certificatesigningrequests",
		shortNames:    []string{"csr"},
		clusterScoped: true,
		validate:      validation.CertificateSigningRequest,
		resets:        []string{"spec", "status"},
		prepareCreate: func(obj resource.Tree) {
			for _, name := range []string{"username", "uid", "groups", "extra"} { // are the server's to say
				drop(obj, "spec", name)
			}
			obj["status"] = resource.Tree{}
		},
		prepareUpdate: func(obj, old resource.Tree) {
			keep(obj, old, "spec")
			keep(obj, old, "status")
		},
		subresources: []subresource[certificatesv1.CertificateSigningRequest]{
			{Subresource: resource.Subresource{
				Name:        "status",
				ResetFields: fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "conditions")),
				Prepare: func(obj, old resource.Tree) {
					keep(obj, old, "spec")
					keepVerdict(obj, old)
					dateConditions(obj, old)
				},
			}, validate: validation.CertificateSigningRequestStatus},
			{Subresource: resource.Subresource{
				Name:        "approval",
				ResetFields: fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("status", "certificate")),
				Prepare: func(obj, old resource.Tree) {
					dateConditions(obj, old)
					keep(obj, old, "spec")
					keep(obj, old, "status", "certificate")
				},
			}, validate: validation.CertificateSigningRequestApproval},
		},
		table:      tables.CertificateSigningRequests(),
		selectable: []selectable{at("spec.signerName")},
		hooks:      resource.Hooks{ValidateName: func(string, bool) []string { return nil }, Requested: requester},
	}.row()
}

// requester writes into a request for a certificate whose it is.
func requester(obj resource.Tree, u *auth.User) {
	put(obj, u.Name, "spec", "username")
	if u.UID != "" {
		put(obj, u.UID, "spec", "uid")
	}
	if len(u.Groups) > 0 {
		put(obj, toAny(u.Groups), "spec", "groups")
	}
	if len(u.Extra) > 0 {
		extra := resource.Tree{}
		for key, values := range u.Extra {
			extra[key] = toAny(values)
		}
		put(obj, extra, "spec", "extra")
	}
}

// keepVerdict puts back the conditions that say whether a request is approved. If
// some were added or removed, that is for validation to refuse.
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

// conditionsOf are the conditions of a type in the status of an object.
func conditionsOf(obj resource.Tree, of string) []resource.Tree {
	var found []resource.Tree
	all, _ := get(obj, "status", "conditions").([]any)
	for _, c := range all {
		if c, ok := c.(resource.Tree); ok && text(c, "type") == of {
			found = append(found, c)
		}
	}
	return found
}

// dateConditions says since when conditions hold that do not say it.
func dateConditions(obj, old resource.Tree) {
	now := time.Now().UTC().Format(time.RFC3339)
	all, _ := get(obj, "status", "conditions").([]any)
	for _, c := range all {
		c, ok := c.(resource.Tree)
		if !ok {
			continue
		}
		if text(c, "lastUpdateTime") == "" {
			c["lastUpdateTime"] = now
		}
		if text(c, "lastTransitionTime") != "" {
			continue
		}
		c["lastTransitionTime"] = now
		for _, before := range conditionsOf(old, text(c, "type")) {
			if since := text(before, "lastTransitionTime"); since != "" && text(before, "status") == text(c, "status") {
				c["lastTransitionTime"] = since
				break
			}
		}
	}
}

// permitSigning is Hooks.Permit of PodCertificateRequests: who answers them may sign in the name of the signer. Of other requests
// for certificates an admission plugin asks that.
func permitSigning(ctx context.Context, s *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	now, _ := get(obj, "status").(resource.Tree)
	before, _ := get(old, "status").(resource.Tree)
	if r.Subresource != "status" || equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	signer := text(old, "spec", "signerName")
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		err := s.Permit(ctx, r, &auth.Attributes{
			Verb: "sign", ResourceRequest: true, APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", Name: name,
		})
		if err == nil {
			return nil
		}
	}
	text := fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", r.User.Name, signer)
	return apierrors.NewInvalid(schema.GroupKind{Group: certificatesv1.GroupName, Kind: "PodCertificateRequest"}, r.Name,
		field.ErrorList{field.Forbidden(field.NewPath("spec", "signerName"), text)})
}
