package pods

import (
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateDownwardVolume(s *corev1.DownwardAPIVolumeSource, at *field.Path) field.ErrorList {
	all := validateMode(s.DefaultMode, at.Child("defaultMode"))
	for i := range s.Items { // the path without an index is Kubernetes'
		all = append(all, validateDownwardFile(&s.Items[i], at)...)
	}
	return all
}

// validateDownwardFile returns the errors of a file with a field or resource of the pod.
func validateDownwardFile(f *corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	all := rule.RequireText(f.Path, at.Child("path"))
	all = append(all, validateFile(f.Path, at.Child("path"))...)
	switch {
	case f.FieldRef != nil:
		all = append(all, validateFieldRef(f.FieldRef, inFiles, at.Child("fieldRef"))...)
		if f.ResourceFieldRef != nil {
			all = append(all, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case f.ResourceFieldRef != nil:
		all = append(all, validateResourceRef(f.ResourceFieldRef, true, at.Child("resourceFieldRef"))...)
	default:
		all = append(all, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(all, validateMode(f.Mode, at.Child("mode"))...)
}

// validateProjected returns the errors of a projected volume, whose sources must not contain the
// same file twice.
func validateProjected(s *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	p := projection{at: at, paths: map[string]bool{}, all: validateMode(s.DefaultMode, at.Child("defaultMode"))}
	for i := range s.Sources {
		p.source(&s.Sources[i], at.Child("sources").Index(i))
	}
	return p.all
}

// projection collects the errors of a volume's sources.
type projection struct {
	at    *field.Path // of the volume
	paths map[string]bool
	all   field.ErrorList
}

func (p *projection) add(problems field.ErrorList) { p.all = append(p.all, problems...) }

// take records the path of a file; show is quoted in the error for a path that is already taken.
func (p *projection) take(path, show string) {
	if p.paths[path] {
		p.all = append(p.all, field.Invalid(p.at, show, "conflicting duplicate paths"))
	}
	p.paths[path] = true
}

func (p *projection) source(s *corev1.VolumeProjection, at *field.Path) {
	sources := 0
	if s.Secret != nil {
		sources++
		p.items(s.Secret.Name, s.Secret.Items, at.Child("secret"))
	}
	if s.ConfigMap != nil {
		sources++
		p.items(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		sources++
		for i := range s.DownwardAPI.Items {
			f := &s.DownwardAPI.Items[i]
			p.add(validateDownwardFile(f, at.Child("downwardAPI")))
			if f.Path != "" {
				p.take(f.Path, f.Path)
			}
		}
	}
	if s.ServiceAccountToken != nil {
		sources++
		p.token(s.ServiceAccountToken, at.Child("serviceAccountToken"))
	}
	if s.ClusterTrustBundle != nil {
		sources++
		p.bundle(s.ClusterTrustBundle, at.Child("clusterTrustBundle"))
	}
	if s.PodCertificate != nil {
		sources++
		p.certificate(s.PodCertificate, at.Child("podCertificate"))
	}
	if sources > 1 {
		p.all = append(p.all, field.Forbidden(at, "may not specify more than 1 volume type per source"))
	}
}

func (p *projection) items(name string, items []corev1.KeyToPath, at *field.Path) {
	p.add(rule.RequireText(name, at.Child("name")))
	for i := range items {
		p.add(validateItem(&items[i], at.Child("items").Index(i)))
		if items[i].Path != "" {
			p.take(items[i].Path, name)
		}
	}
}

func (p *projection) token(s *corev1.ServiceAccountTokenProjection, at *field.Path) {
	seconds := at.Child("expirationSeconds")
	switch n := s.ExpirationSeconds; {
	case n == nil:
		p.all = append(p.all, field.Required(seconds, ""))
	case *n < rule.MinTokenSeconds:
		p.all = append(p.all, field.Invalid(seconds, *n, "may not specify a duration less than 10 minutes"))
	case *n > rule.MaxTokenSeconds:
		p.all = append(p.all, field.Invalid(seconds, *n, "may not specify a duration larger than 2^32 seconds"))
	}
	if s.Path == "" { // the path of the volume is Kubernetes'
		p.all = append(p.all, field.Required(p.at.Child("path"), ""))
	} else {
		p.add(validateFile(s.Path, p.at.Child("path")))
	}
}

func (p *projection) bundle(s *corev1.ClusterTrustBundleProjection, at *field.Path) {
	switch {
	case s.Name != nil && s.SignerName != nil:
		p.all = append(p.all, field.Invalid(at, rule.AsInternal(s), "only one of name and signerName may be used"))
	case s.Name != nil:
		if *s.Name == "" {
			p.all = append(p.all, field.Required(at.Child("name"), "must be a valid object name"))
		}
		for _, problem := range bundleNameProblems(*s.Name) {
			p.all = append(p.all, field.Invalid(at.Child("name"), *s.Name, "not a valid clustertrustbundlename: "+problem))
		}
		if s.LabelSelector != nil {
			p.all = append(p.all, field.Invalid(at.Child("labelSelector"), s.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case s.SignerName != nil:
		if *s.SignerName == "" {
			p.all = append(p.all, field.Required(at.Child("signerName"), "must be a valid signer name"))
		}
		p.add(validateSigner(*s.SignerName, at.Child("signerName")))
		p.add(metav1validation.ValidateLabelSelector(s.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector")))
	default:
		p.all = append(p.all, field.Required(at, "either name or signerName must be specified"))
	}
	p.add(rule.RequireText(s.Path, at.Child("path")))
	p.add(validateFile(s.Path, at.Child("path")))
	p.take(s.Path, s.Path)
}

// bundleNameProblems returns the errors of a bundle's name, which has its signer before the last
// colon, if it has one.
func bundleNameProblems(name string) []string {
	return apivalidation.NameIsDNSSubdomain(name[strings.LastIndex(name, ":")+1:], false)
}

// The lifetime of pod certificates: an hour to 91 days, for Kubernetes' own signers at most a day.
const (
	minCertificateSeconds = 3600
	maxCertificateSeconds = 91 * 24 * 3600
	maxKubernetesSeconds  = 24 * 3600
)

func (p *projection) certificate(s *corev1.PodCertificateProjection, at *field.Path) {
	p.add(validateSigner(s.SignerName, at.Child("signerName")))
	p.add(rule.Supported(at.Child("keyType"), s.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"))
	if n := s.MaxExpirationSeconds; n != nil {
		seconds := at.Child("maxExpirationSeconds")
		if *n < minCertificateSeconds {
			p.all = append(p.all, field.Invalid(seconds, *n, "if provided, maxExpirationSeconds must be >= 3600"))
		}
		limit := int32(maxCertificateSeconds)
		if domain, _, _ := strings.Cut(s.SignerName, "/"); domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
			limit = maxKubernetesSeconds
		}
		if *n > limit {
			p.all = append(p.all, field.Invalid(seconds, *n, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", limit)))
		}
	}
	paths := 0
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", s.CredentialBundlePath}, {"keyPath", s.KeyPath}, {"certificateChainPath", s.CertificateChainPath},
	} {
		if f.path != "" {
			paths++
			p.add(validateFile(f.path, at.Child(f.name)))
			p.take(f.path, f.path)
		}
	}
	if paths == 0 {
		p.all = append(p.all, field.Required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
}

// validateSigner returns the errors of a signer's name, domain/path. Each label of the path may be
// as long as a whole name, and all together as long as a name and a label.
func validateSigner(name string, at *field.Path) field.ErrorList {
	var all field.ErrorList
	domain, path, _ := strings.Cut(name, "/")
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "")}
	case strings.Count(name, "/") != 1:
		return field.ErrorList{field.Invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	case len(domain) > validation.DNS1123SubdomainMaxLength:
		all = append(all, field.TooLong(at, "", validation.DNS1123SubdomainMaxLength))
	}
	all = append(all, validateEachLabel(domain, validation.IsDNS1123Label, at)...)
	if !strings.Contains(domain, ".") {
		all = append(all, field.Invalid(at, domain, "should be a domain with at least two segments separated by dots"))
	}
	all = append(all, validateEachLabel(path, validation.IsDNS1123Subdomain, at)...)
	if limit := 2*validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 2; len(name) > limit {
		all = append(all, field.TooLong(at, "", limit))
	}
	return all
}

// validateEachLabel returns the errors of the first invalid label.
func validateEachLabel(name string, check func(string) []string, at *field.Path) field.ErrorList {
	for label := range strings.SplitSeq(name, ".") {
		if problems := check(label); len(problems) > 0 {
			var all field.ErrorList
			for _, problem := range problems {
				all = append(all, field.Invalid(at, name, fmt.Sprintf("validating label %q: %s", label, problem)))
			}
			return all
		}
	}
	return nil
}
