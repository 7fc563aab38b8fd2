package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePodCertificateRequest(r, old *certificatesv1.PodCertificateRequest) field.ErrorList {
	spec, at := &r.Spec, field.NewPath("spec")
	if old != nil {
		return rule.ValidateImmutable(r.Spec, old.Spec, at)
	}
	all := validateSignerName(spec.SignerName, at.Child("signerName"))
	all = append(all, validateUserAnnotations(spec.UnverifiedUserAnnotations, at.Child("unverifiedUserAnnotations"))...)
	for _, who := range []struct {
		name, value string
		uid         string
	}{
		{"pod", spec.PodName, string(spec.PodUID)}, {"serviceAccount", spec.ServiceAccountName, string(spec.ServiceAccountUID)},
		{"node", string(spec.NodeName), string(spec.NodeUID)},
	} {
		all = append(all, rule.Invalid(at.Child(who.name+"Name"), who.value, apivalidation.NameIsDNSSubdomain(who.value, false))...)
		uid := at.Child(who.name + "UID")
		if who.uid == "" {
			all = append(all, field.Invalid(uid, who.uid, "must not be empty"))
		}
		if len(who.uid) > 128 {
			all = append(all, field.TooLong(uid, who.uid, 128))
		}
	}
	const hour, day = 60 * 60, 24 * 60 * 60
	longest := int32(91 * day)
	if isKubernetesSigner(spec.SignerName) {
		longest = day
	}
	if s := *spec.MaxExpirationSeconds; s < hour || s > longest {
		all = append(all, field.Invalid(at.Child("maxExpirationSeconds"), s, fmt.Sprintf("must be in the range [%d, %d]", hour, longest)))
	}
	return append(all, validateStub(spec.StubPKCS10Request, at)...)
}

func validateUserAnnotations(annotations map[string]string, at *field.Path) (all field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		all = append(all, validation.IsDomainPrefixedKey(at, strings.ToLower(key))...)
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		all = append(all, field.TooLong(at, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return all
}

// validateStub requires a certificate request with a supported key. The rest of the request is
// ignored.
func validateStub(stub []byte, spec *field.Path) field.ErrorList {
	const longest = 10 * 1024
	at := spec.Child("stubPKCS10Request")
	if len(stub) == 0 {
		return field.ErrorList{field.Invalid(spec, field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")}
	}
	if len(stub) > longest {
		return field.ErrorList{field.TooLong(at, stub, longest)}
	}
	request, err := x509.ParseCertificateRequest(stub)
	if err != nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be a valid PKCS#10 CSR")}
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return field.ErrorList{field.Invalid(at, "curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")}
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return field.ErrorList{field.Invalid(at, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")}
		}
	default:
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")}
	}
	if request.CheckSignature() != nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "invalid signature")}
	}
	return nil
}

// validatePodCertificateRequestStatus lets a final answer be written once.
func validatePodCertificateRequestStatus(r, old *certificatesv1.PodCertificateRequest) (all field.ErrorList) {
	status, at := &r.Status, field.NewPath("status")
	answers := []string{
		certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
		certificatesv1.PodCertificateRequestConditionTypeFailed,
	}
	for i, c := range status.Conditions {
		// Kubernetes formats the path differently here.
		at := field.NewPath("status", "conditions", fmt.Sprintf("[%d]", i))
		if !slices.Contains(answers, c.Type) {
			all = append(all, field.NotSupported(at.Child("type"), c.Type, answers))
			continue
		}
		if i > 0 {
			all = append(all, field.Invalid(at.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		all = append(all, rule.Supported(at.Child("status"), c.Status, metav1.ConditionTrue)...)
	}
	all = append(all, metav1validation.ValidateConditions(status.Conditions, at.Child("conditions"))...)
	if len(all) > 0 {
		return all
	}
	refuse := func(detail string) field.ErrorList {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, detail)}
	}
	changed := !equality.Semantic.DeepEqual(status, &old.Status)
	switch {
	case len(old.Status.Conditions) > 0 && changed:
		return refuse("immutable after PodCertificateRequest is issued, denied, or failed")
	case len(status.Conditions) == 0 && changed:
		return refuse(`status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
	case len(status.Conditions) == 0 || status.Conditions[0].Type == certificatesv1.PodCertificateRequestConditionTypeIssued:
		return nil
	case changed && !equality.Semantic.DeepEqual(status, &certificatesv1.PodCertificateRequestStatus{Conditions: status.Conditions}):
		return refuse("non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	}
	return nil
}
