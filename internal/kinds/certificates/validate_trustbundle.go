package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateClusterTrustBundle(b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	spec, at := &b.Spec, field.NewPath("spec")
	all := rule.Invalid(field.NewPath("metadata", "name"), b.Name, problemsOfBundleName(b.Name, spec.SignerName))
	if spec.SignerName != "" {
		all = append(all, validateSignerName(spec.SignerName, at.Child("signerName"))...)
	}
	if old == nil || spec.TrustBundle != old.Spec.TrustBundle {
		all = append(all, validateAnchors(spec.TrustBundle, at.Child("trustBundle"))...)
	}
	if old != nil {
		all = append(all, rule.ValidateImmutable(spec.SignerName, old.Spec.SignerName, at.Child("signerName"))...)
	}
	return all
}

// problemsOfBundleName requires the name of a signer's bundle to start with that of the signer.
func problemsOfBundleName(name, signer string) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return apivalidation.NameIsDNSSubdomain(name, false)
	}
	prefix := strings.ReplaceAll(signer, "/", ":") + ":"
	own, found := strings.CutPrefix(name, prefix)
	if !found {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix)}
	}
	return apivalidation.NameIsDNSSubdomain(own, false)
}

// validateAnchors requires distinct CA certificates in PEM.
func validateAnchors(bundle string, at *field.Path) (all field.ErrorList) {
	const longest = 1 << 20
	if len(bundle) > longest {
		return field.ErrorList{field.TooLong(at, "", longest)}
	}
	indices := map[string][]int{}
	var anchors []string // in the order in which Kubernetes finds them
	for i, rest := 0, []byte(bundle); ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if problem := problemOfAnchor(block); problem != "" {
			all = append(all, field.Invalid(at, "<value omitted>", fmt.Sprintf("entry %d %s", i, problem)))
			continue
		}
		anchor := string(block.Bytes)
		if !slices.Contains(anchors, anchor) {
			anchors = append(anchors, anchor)
		}
		indices[anchor] = append(indices[anchor], i)
	}
	if len(all) > 0 {
		return all
	}
	if len(anchors) == 0 {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "at least one trust anchor must be provided")}
	}
	for _, anchor := range anchors {
		if len(indices[anchor]) > 1 {
			all = append(all, field.Invalid(at, "<value omitted>", fmt.Sprintf("duplicate trust anchor (indices %v)", indices[anchor])))
		}
	}
	return all
}

func problemOfAnchor(block *pem.Block) string {
	if block.Type != "CERTIFICATE" {
		return "has bad block type: " + block.Type
	}
	if len(block.Headers) > 0 {
		return "has PEM block headers"
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !certificate.IsCA:
		return "does not have the CA bit set"
	case !certificate.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}
