package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// legacySigner is the default signer in v1beta1. v1 rejects it.
const legacySigner = "kubernetes.io/legacy-unknown"

func validateCertificateSigningRequest(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return validateSigningRequest(r, old, false, false)
}

// validateCertificateSigningRequestStatus returns the errors of a status that a signer writes.
func validateCertificateSigningRequestStatus(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return validateSigningRequest(r, old, false, true)
}

// validateCertificateSigningRequestApproval returns the errors of an approval or denial.
func validateCertificateSigningRequestApproval(r, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return validateSigningRequest(r, old, true, false)
}

func validateSigningRequest(r, old *certificatesv1.CertificateSigningRequest, approves, signs bool) field.ErrorList {
	before := old
	if old == nil {
		before = &certificatesv1.CertificateSigningRequest{}
	}
	spec, at := &r.Spec, field.NewPath("spec")
	var all field.ErrorList
	if err := checkRequest(spec.Request); err != nil {
		all = append(all, field.Invalid(at.Child("request"), spec.Request, err.Error()))
	}
	all = append(all, validateUsages(spec.Usages, before.Spec.Usages, at.Child("usages"))...)
	if spec.SignerName == legacySigner && before.Spec.SignerName != legacySigner {
		all = append(all, field.Invalid(at.Child("signerName"), spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		all = append(all, validateSignerName(spec.SignerName, at.Child("signerName"))...)
	}
	if s := spec.ExpirationSeconds; s != nil && *s < 600 {
		all = append(all, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	status, at := &r.Status, field.NewPath("status")
	all = append(all, validateRequestConditions(status.Conditions, before.Status.Conditions, at.Child("conditions"))...)
	issued, now := before.Status.Certificate, status.Certificate
	if !bytes.Equal(now, issued) && checkCertificates(issued) == nil {
		if err := checkCertificates(now); err != nil {
			all = append(all, field.Invalid(at.Child("certificate"), "<certificate data>", err.Error()))
		}
	}
	if old != nil {
		all = append(all, validateVerdict(status.Conditions, before.Status.Conditions, approves, at.Child("conditions"))...)
		switch {
		case bytes.Equal(now, issued):
		case !signs:
			all = append(all, field.Forbidden(at.Child("certificate"), "updates may not set certificate content"))
		case len(issued) > 0:
			all = append(all, field.Forbidden(at.Child("certificate"), "updates may not modify existing certificate content"))
		}
	}
	return append(all, validateOneVerdict(status.Conditions, before.Status.Conditions, at.Child("conditions"))...)
}

// checkRequest returns an error unless data is a certificate request in PEM, signed with the key
// that it contains.
func checkRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return request.CheckSignature()
}

// checkCertificates returns an error unless data is empty or a chain of certificates in PEM.
func checkCertificates(data []byte) error {
	found := len(data) == 0
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certificates, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		found, data = true, rest
	}
	if !found {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// keyUsages are the known usages of a key.
var keyUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCRLSign, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
	certificatesv1.UsageContentCommitment, certificatesv1.UsageDataEncipherment, certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature,
	certificatesv1.UsageEmailProtection, certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
	certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageMicrosoftSGC,
	certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning, certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth,
	certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
}

// validateUsages rejects unknown and duplicate usages, unless the old object has such.
func validateUsages(now, before []certificatesv1.KeyUsage, at *field.Path) (all field.ErrorList) {
	if len(now) == 0 {
		all = append(all, field.Required(at, ""))
	}
	sorted := slices.Sorted(slices.Values(keyUsages))
	isKnown := func(u certificatesv1.KeyUsage) bool { return slices.Contains(sorted, u) }
	if !slices.ContainsFunc(before, func(u certificatesv1.KeyUsage) bool { return !isKnown(u) }) {
		for i, u := range now {
			all = append(all, rule.Supported(at.Index(i), u, sorted...)...)
		}
	}
	if !hasTwice(before) {
		repeats := rule.Repeats[certificatesv1.KeyUsage]()
		for i, u := range now {
			if repeats(u) {
				all = append(all, field.Duplicate(at.Index(i), u))
			}
		}
	}
	return all
}

func hasTwice[V comparable](values []V) bool {
	seen := map[V]bool{}
	for _, v := range values {
		seen[v] = true
	}
	return len(seen) < len(values)
}

func validateRequestConditions(now, before []certificatesv1.CertificateSigningRequestCondition, at *field.Path) (all field.ErrorList) {
	types := requestTypes(before)
	untyped, twice := slices.Contains(types, ""), hasTwice(types)
	repeats := rule.Repeats[certificatesv1.RequestConditionType]()
	for i, c := range now {
		at := at.Index(i)
		if c.Type == "" && !untyped {
			all = append(all, field.Required(at.Child("type"), ""))
		}
		supported := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			supported = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		all = append(all, rule.OneOf(at.Child("status"), c.Status, supported...)...)
		if repeats(c.Type) && !twice {
			all = append(all, field.Duplicate(at.Child("type"), c.Type))
		}
	}
	return all
}

func requestTypes(conditions []certificatesv1.CertificateSigningRequestCondition) (types []certificatesv1.RequestConditionType) {
	for _, c := range conditions {
		types = append(types, c.Type)
	}
	return types
}

// validateVerdict rejects changed conditions Approved, Denied and Failed: they cannot be removed,
// and only approvers add the first two.
func validateVerdict(now, before []certificatesv1.CertificateSigningRequestCondition, approves bool, at *field.Path) field.ErrorList {
	var all, changes field.ErrorList
	for _, of := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		current, former := requestConditions(now, of), requestConditions(before, of)
		if len(current) < len(former) {
			all = append(all, field.Forbidden(at, fmt.Sprintf("updates may not remove a condition of type %q", of)))
		}
		if approves || of == certificatesv1.CertificateFailed {
			continue
		}
		if len(current) > len(former) {
			changes = append(changes, field.Forbidden(at, fmt.Sprintf("updates may not add a condition of type %q", of)))
		} else if len(current) == len(former) && !equality.Semantic.DeepEqual(former, current) {
			changes = append(changes, field.Forbidden(at, fmt.Sprintf("updates may not modify a condition of type %q\n%v", of, diff.Diff(former, current))))
		}
	}
	return append(all, changes...)
}

func requestConditions(all []certificatesv1.CertificateSigningRequestCondition, of certificatesv1.RequestConditionType) (found []certificatesv1.CertificateSigningRequestCondition) {
	for _, c := range all {
		if c.Type == of {
			found = append(found, c)
		}
	}
	return found
}

// validateOneVerdict rejects a request that becomes both approved and denied.
func validateOneVerdict(now, before []certificatesv1.CertificateSigningRequestCondition, at *field.Path) field.ErrorList {
	both := func(conditions []certificatesv1.CertificateSigningRequestCondition) bool {
		types := requestTypes(conditions)
		return slices.Contains(types, certificatesv1.CertificateApproved) && slices.Contains(types, certificatesv1.CertificateDenied)
	}
	if !both(now) || both(before) || reflect.DeepEqual(now, before) {
		return nil
	}
	const approved, denied = `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`
	return field.ErrorList{field.Invalid(at, "{"+approved+", "+denied+"}", "must specify at most one of: `"+approved+"`, `"+denied+"`")}
}
