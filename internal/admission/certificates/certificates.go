// Package certificates has Kubernetes' admission plugins for certificates: CertificateApproval,
// CertificateSigning, ClusterTrustBundleAttest and CertificateSubjectRestriction. At most one of
// them handles a request. Each is a [Plugin] of its own, so that each can be turned off.
//
// A user who approves or signs a CertificateSigningRequest, or attests a ClusterTrustBundle of a
// signer, needs the verb approve, sign or attest on the resource signers, with the signer's name,
// or with DOMAIN/* for all signers of a domain. A request to the signer of client certificates must
// not ask for the group system:masters.
//
// The package starts no goroutine and has no locks.
package certificates

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Permit authorizes another action of the request's user, see [authz.Permit].
type Permit func(ctx context.Context, r *resource.Request, a *authz.Attributes) error

// The names of the plugins in Kubernetes.
const (
	Approval           = "CertificateApproval"
	Signing            = "CertificateSigning"
	Attest             = "ClusterTrustBundleAttest"
	SubjectRestriction = "CertificateSubjectRestriction"
)

// A Plugin is one of the plugins. It implements admission.Validator, and is safe for concurrent
// use.
type Plugin struct {
	name   string
	permit Permit
}

// New returns the Plugin with a name, which authorizes with permit.
func New(name string, permit Permit) Plugin { return Plugin{name, permit} }

// Handles implements admission.Plugin.
func (p Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	name, _ := judge(r, op)
	return name == p.name
}

// Validate implements admission.Validator.
func (p Plugin) Validate(ctx context.Context, a *resource.Admitted) error {
	_, verdict := judge(a.Request, a.Operation)
	err := verdict(p, ctx, a)
	if err == nil {
		return nil
	}
	return apierrors.NewForbidden(a.Request.GroupResource(), a.Name, err)
}

// judge returns the name of the plugin that handles a request, and its function; "" if none does.
func judge(r *resource.Request, op resource.Operation) (name string, verdict func(Plugin, context.Context, *resource.Admitted) error) {
	if r.Definition.Group != certificatesv1.GroupName {
		return "", nil
	}
	switch r.Definition.Plural {
	case "certificatesigningrequests":
		switch {
		case op == resource.OperationCreate && r.Subresource == "":
			return SubjectRestriction, Plugin.restrictSubject
		case op == resource.OperationUpdate && r.Subresource == "approval":
			return Approval, Plugin.approve
		case op == resource.OperationUpdate && r.Subresource == "status":
			return Signing, Plugin.sign
		}
	case "clustertrustbundles":
		if op == resource.OperationCreate || op == resource.OperationUpdate {
			return Attest, Plugin.attest
		}
	}
	return "", nil
}

// approve checks the signer of the stored object: validation rejects updates that change it.
func (p Plugin) approve(ctx context.Context, a *resource.Admitted) error {
	signer := signerOf(a.Old)
	if p.allowed(ctx, a, "approve", signer) {
		return nil
	}
	return fmt.Errorf("user not permitted to approve requests with signerName %q", signer)
}

func (p Plugin) sign(ctx context.Context, a *resource.Admitted) error {
	if same(a.Object, a.Old, "certificate") && same(a.Object, a.Old, "conditions") {
		return nil
	}
	signer := signerOf(a.Old)
	if p.allowed(ctx, a, "sign", signer) {
		return nil
	}
	return fmt.Errorf("user not permitted to sign requests with signerName %q", signer)
}

// attest allows updates that do not change the trust in a signer, such as those of the garbage
// collector.
func (p Plugin) attest(ctx context.Context, a *resource.Admitted) error {
	signer := signerOf(a.Object)
	if signer == "" || a.Old != nil && reflect.DeepEqual(lasting(a.Object), lasting(a.Old)) {
		return nil
	}
	if p.allowed(ctx, a, "attest", signer) {
		return nil
	}
	return fmt.Errorf("user not permitted to attest for signerName %q", signer)
}

func (p Plugin) restrictSubject(_ context.Context, a *resource.Admitted) error {
	if signerOf(a.Object) != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	encoded, _, _ := unstructured.NestedString(a.Object, "spec", "request")
	request, err := parse(encoded)
	if err != nil {
		return fmt.Errorf("failed to parse CSR: %w", err)
	}
	if slices.Contains(request.Subject.Organization, authn.Masters) {
		return fmt.Errorf("use of %s signer with system:masters group is not allowed", certificatesv1.KubeAPIServerClientSignerName)
	}
	return nil
}

// allowed reports whether the user has a verb on a signer, or on all signers of its domain. An
// error of the authorizer counts as a denial.
func (p Plugin) allowed(ctx context.Context, a *resource.Admitted, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		err := p.permit(ctx, a.Request, &authz.Attributes{
			Verb: verb, ResourceRequest: true, APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", Name: name,
		})
		if err == nil {
			return true
		}
	}
	return false
}

func signerOf(obj resource.Tree) string {
	name, _, _ := unstructured.NestedString(obj, "spec", "signerName")
	return name
}

// same reports whether two objects have equal values of a status field; an empty list equals none.
func same(obj, old resource.Tree, field string) bool {
	read := func(obj resource.Tree) any {
		value, _, _ := unstructured.NestedFieldNoCopy(obj, "status", field)
		if list, ok := value.([]any); ok && len(list) == 0 {
			return nil
		}
		return value
	}
	return reflect.DeepEqual(read(obj), read(old))
}

// lasting returns an object without the metadata that other components write.
func lasting(obj resource.Tree) resource.Tree {
	obj = maps.Clone(obj)
	metadata, _ := obj["metadata"].(resource.Tree)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"ownerReferences", "finalizers", "managedFields"} {
		delete(metadata, field)
	}
	obj["metadata"] = metadata
	return obj
}

// parse decodes the request in an object.
func parse(encoded string) (*x509.CertificateRequest, error) {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
