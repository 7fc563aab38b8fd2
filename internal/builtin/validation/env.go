package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateEnv(vars []corev1.EnvVar, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range vars {
		at := at.Index(i)
		if vars[i].Name == "" {
			all = append(all, field.Required(at.Child("name"), ""))
		} else {
			all = append(all, invalid(at.Child("name"), vars[i].Name, validation.IsRelaxedEnvVarName(vars[i].Name))...)
		}
		if vars[i].ValueFrom != nil {
			all = append(all, validateEnvSource(&vars[i], at.Child("valueFrom"))...)
		}
	}
	return all
}

func validateEnvSource(v *corev1.EnvVar, at *field.Path) field.ErrorList {
	var all field.ErrorList
	from, sources := v.ValueFrom, 0
	if ref := from.FieldRef; ref != nil {
		sources++
		all = append(all, validateFieldRef(ref, at.Child("fieldRef"))...)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		sources++
		all = append(all, validateResourceRef(ref, at.Child("resourceFieldRef"))...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		all = append(all, validateKeyRef(ref.Name, ref.Key, at.Child("configMapKeyRef"))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		all = append(all, validateKeyRef(ref.Name, ref.Key, at.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		sources++
	}
	switch {
	case sources == 0:
		all = append(all, field.Invalid(at, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		all = append(all, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		all = append(all, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return all
}

func validateKeyRef(name, key string, at *field.Path) field.ErrorList {
	all := invalid(at.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false))
	if key == "" {
		return append(all, field.Required(at.Child("key"), ""))
	}
	return append(all, validateDataKey(key, at.Child("key"))...)
}

// validateFieldRef accepts what the environment may show of a pod. Paths that only
// volumes may show are known and not supported, others are not known at all.
func validateFieldRef(ref *corev1.ObjectFieldSelector, at *field.Path) field.ErrorList {
	if ref.FieldPath == "" {
		return field.ErrorList{field.Required(at.Child("fieldPath"), "")}
	}
	refuse := func(why string) field.ErrorList {
		return field.ErrorList{field.Invalid(at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: "+why)}
	}
	if ref.APIVersion != "v1" {
		return refuse("unsupported pod version: " + ref.APIVersion)
	}
	if path, key, ok := subscript(ref.FieldPath); ok {
		switch path {
		case "metadata.annotations":
			return validateQualified(at, strings.ToLower(key))
		case "metadata.labels":
			return validateQualified(at, key)
		}
		return refuse("field label does not support subscript: " + ref.FieldPath)
	}
	supported := []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	known := []string{"metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
	switch path := ref.FieldPath; {
	case path == "spec.host", slices.Contains(supported, path): // spec.host is the old name of spec.nodeName
		return nil
	case slices.Contains(known, path):
		return field.ErrorList{field.NotSupported(at.Child("fieldPath"), path, supported)}
	}
	return refuse("field label not supported: " + ref.FieldPath)
}

// subscript splits path['key'].
func subscript(s string) (path, key string, ok bool) {
	s, ok = strings.CutSuffix(s, "']")
	if !ok {
		return "", "", false
	}
	path, key, ok = strings.Cut(s, "['")
	return path, key, ok && path != ""
}

// validateResourceRef accepts what a container may be told of its resources.
func validateResourceRef(ref *corev1.ResourceFieldSelector, at *field.Path) field.ErrorList {
	supported := []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
	_, name, _ := strings.Cut(ref.Resource, ".")
	pages := strings.HasPrefix(ref.Resource, "requests.hugepages-") || strings.HasPrefix(ref.Resource, "limits.hugepages-")
	switch {
	case ref.Resource == "":
		return field.ErrorList{field.Required(at.Child("resource"), "")}
	case !pages && !slices.Contains(supported, ref.Resource):
		return field.ErrorList{field.NotSupported(at.Child("resource"), ref.Resource, supported)}
	case ref.Divisor.Cmp(resource.Quantity{}) == 0:
		return nil
	}
	divisors, of := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}, name
	switch {
	case name == "cpu":
		divisors = []string{"1m", "1"}
	case name == "ephemeral-storage":
		of = "local ephemeral storage"
	case pages:
		of = "hugepages"
	}
	if slices.Contains(divisors, ref.Divisor.String()) {
		return nil
	}
	list := strings.Join(divisors, ", ")
	if name == "cpu" {
		list = "1m and 1"
	}
	return field.ErrorList{field.Invalid(at.Child("divisor"), ref.Resource, fmt.Sprintf("only divisor's values %s are supported with the %s resource", list, of))}
}

func validateEnvFrom(sources []corev1.EnvFromSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, source := range sources {
		if source.Prefix != "" {
			all = append(all, invalid(at.Index(i).Child("prefix"), source.Prefix, validation.IsRelaxedEnvVarName(source.Prefix))...)
		}
		if ref := source.ConfigMapRef; ref != nil {
			all = append(all, validateNamed(ref.Name, at.Index(i).Child("configMapRef", "name"))...)
		}
		if ref := source.SecretRef; ref != nil {
			all = append(all, validateNamed(ref.Name, at.Index(i).Child("secretRef", "name"))...)
		}
		switch {
		case source.ConfigMapRef == nil && source.SecretRef == nil:
			all = append(all, field.Invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
		case source.ConfigMapRef != nil && source.SecretRef != nil:
			all = append(all, field.Invalid(at, "", "may not have more than one field specified at a time"))
		}
	}
	return all
}

// validateNamed wants the name of an object.
func validateNamed(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return invalid(at, name, apivalidation.NameIsDNSSubdomain(name, false))
}
