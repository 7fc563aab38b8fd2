// Package clientconfig validates how webhooks are reached, in the words of Kubernetes. It has no
// state.
package clientconfig

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/transport"
)

// ValidateURL validates the URL of a webhook.
func ValidateURL(text string, at *field.Path) (errs field.ErrorList) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(at, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(at, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(at, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(at, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(at, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

// ValidateService validates the service of a webhook. path is nil for none.
func ValidateService(namespace, name string, path *string, port int32, at *field.Path) (errs field.ErrorList) {
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if wrong := validation.IsValidPortNum(int(port)); wrong != nil {
		errs = append(errs, field.Invalid(at.Child("port"), port, "port is not valid: "+strings.Join(wrong, ", ")))
	}
	if path == nil || *path == "" || *path == "/" {
		return errs
	}
	invalid := func(format string, args ...any) {
		errs = append(errs, field.Invalid(at.Child("path"), *path, fmt.Sprintf(format, args...)))
	}
	if *path == "//" {
		invalid("segment[0] may not be empty")
		return errs
	}
	if !strings.HasPrefix(*path, "/") {
		invalid("must start with a '/'")
	}
	// The first character is skipped even if it is no slash, as in Kubernetes.
	for i, segment := range strings.Split(strings.TrimSuffix((*path)[1:], "/"), "/") {
		if segment == "" {
			invalid("segment[%d] may not be empty", i)
			continue
		}
		for _, wrong := range validation.IsDNS1123Subdomain(segment) {
			invalid("segment[%d]: %v", i, wrong)
		}
	}
	return errs
}

// ValidateCABundle validates certificates of authorities, in PEM.
func ValidateCABundle(bundle []byte, at *field.Path) field.ErrorList {
	if _, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{CAData: bundle}}); err != nil {
		return field.ErrorList{field.Invalid(at, bundle, err.Error())}
	}
	return nil
}
