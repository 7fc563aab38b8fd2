package certificates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSignerName returns the errors of a signer's name: a domain and a path, as long as a
// namespace and a name.
func validateSignerName(name string, at *field.Path) (all field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	domain, path, found := strings.Cut(name, "/")
	if !found || strings.Contains(path, "/") {
		return field.ErrorList{field.Invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	const longestDomain = validation.DNS1123SubdomainMaxLength
	if len(domain) > longestDomain {
		all = append(all, field.TooLong(at, "", longestDomain))
	}
	all = append(all, firstBadLabel(domain, validation.IsDNS1123Label, at)...)
	if !strings.Contains(domain, ".") {
		all = append(all, field.Invalid(at, domain, "should be a domain with at least two segments separated by dots"))
	}
	all = append(all, firstBadLabel(path, validation.IsDNS1123Subdomain, at)...)
	if longest := longestDomain + 1 + validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength; len(name) > longest {
		all = append(all, field.TooLong(at, "", longest))
	}
	return all
}

// firstBadLabel returns the errors of the first invalid part between dots, as further parts often
// have the same.
func firstBadLabel(name string, check func(string) []string, at *field.Path) (all field.ErrorList) {
	for label := range strings.SplitSeq(name, ".") {
		if problems := check(label); len(problems) > 0 {
			for _, problem := range problems {
				all = append(all, field.Invalid(at, name, fmt.Sprintf("validating label %q: %s", label, problem)))
			}
			return all
		}
	}
	return nil
}

// isKubernetesSigner reports whether a signer is one of Kubernetes' own.
func isKubernetesSigner(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}
