package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/kapok-dev/kapok/scheduler/extender"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// compileExtenders returns the extenders in the order in which they are called, those that can be
// ignored last, and the resources that NodeResourcesFit leaves to them.
func compileExtenders(path *field.Path, configs []configv1.Extender) (all []*extender.Extender, ignored []string, errs field.ErrorList) {
	var ignorable []*extender.Extender
	binders, managed := 0, map[string]bool{}
	for i, c := range configs {
		path := path.Index(i)
		if u, err := url.Parse(c.URLPrefix); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, field.Invalid(path.Child("urlPrefix"), c.URLPrefix, "must be the URL of an HTTP server"))
		}
		if c.PrioritizeVerb != "" && c.Weight <= 0 {
			errs = append(errs, field.Invalid(path.Child("weight"), c.Weight, "must be greater than 0 if there is a prioritizeVerb"))
		}
		if c.HTTPTimeout.Duration < 0 {
			errs = append(errs, field.Invalid(path.Child("httpTimeout"), c.HTTPTimeout.Duration.String(), "must not be negative"))
		}
		if c.BindVerb != "" {
			binders++
		}
		for j, r := range c.ManagedResources {
			path := path.Child("managedResources").Index(j).Child("name")
			errs = append(errs, validateExtended(path, r.Name)...)
			if managed[r.Name] {
				errs = append(errs, field.Duplicate(path, r.Name))
			}
			if managed[r.Name] = true; r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
		e, err := extender.New(c)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Child("tlsConfig"), field.OmitValueType{}, err.Error()))
		case e.Ignorable():
			ignorable = append(ignorable, e)
		default:
			all = append(all, e)
		}
	}
	if binders > 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%d extenders with a bindVerb", binders), "must be at most one"))
	}
	return append(all, ignorable...), ignored, errs
}

// validateExtended validates the name of an extended resource.
func validateExtended(path *field.Path, name string) (errs field.ErrorList) {
	for _, reason := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, reason))
	}
	if len(errs) > 0 {
		return errs
	}
	const quota = corev1.DefaultResourceRequestsPrefix
	if !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(name, quota) ||
		len(validation.IsQualifiedName(quota+name)) > 0 {
		return field.ErrorList{field.Invalid(path, name, "must be the name of an extended resource")}
	}
	return nil
}
