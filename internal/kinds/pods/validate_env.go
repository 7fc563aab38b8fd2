package pods

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
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
			all = append(all, rule.Invalid(at.Child("name"), vars[i].Name, validation.IsRelaxedEnvVarName(vars[i].Name))...)
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
		all = append(all, validateFieldRef(ref, inEnv, at.Child("fieldRef"))...)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		sources++
		all = append(all, validateResourceRef(ref, false, at.Child("resourceFieldRef"))...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		sources++
		all = append(all, validateKeyRef(ref.Name, ref.Key, at.Child("configMapKeyRef"))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		sources++
		all = append(all, validateKeyRef(ref.Name, ref.Key, at.Child("secretKeyRef"))...)
	}
	if ref := from.FileKeyRef; ref != nil {
		sources++
		all = append(all, validateFileKeyRef(ref, at.Child("fileKeyRef"))...)
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
	all := rule.Invalid(at.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false))
	if key == "" {
		return append(all, field.Required(at.Child("key"), ""))
	}
	return append(all, rule.ValidateDataKey(key, at.Child("key"))...)
}

// validateFileKeyRef returns the errors of a variable that is read from a file of an init
// container.
func validateFileKeyRef(ref *corev1.FileKeySelector, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if ref.Key == "" {
		all = append(all, field.Required(at.Child("key"), ""))
	} else {
		all = append(all, rule.Invalid(at.Child("key"), ref.Key, validation.IsRelaxedEnvVarName(ref.Key))...)
	}
	if ref.VolumeName == "" {
		all = append(all, field.Required(at.Child("volumeName"), ""))
	} else {
		all = append(all, rule.ValidateLabel(at.Child("volumeName"), ref.VolumeName)...)
	}
	if ref.Path == "" {
		return append(all, field.Required(at.Child("path"), ""))
	}
	return append(all, rule.ValidateNoBacksteps(ref.Path, at.Child("path"))...)
}

// validateFileKeyVolumes requires the volumes of such files to be emptyDirs.
func validateFileKeyVolumes(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		for i, v := range c.Env {
			if v.ValueFrom == nil || v.ValueFrom.FileKeyRef == nil {
				continue
			}
			name, at := v.ValueFrom.FileKeyRef.VolumeName, at.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			switch i := slices.IndexFunc(spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == name }); {
			case i < 0:
				all = append(all, field.NotFound(at, name))
			case spec.Volumes[i].EmptyDir == nil:
				all = append(all, field.Invalid(at, name, "referenced volume must be of type emptyDir"))
			}
		}
	})
	return all
}

// Where fields of a pod can be exposed: in the environment and in files.
var (
	inEnv = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	inFiles = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
)

// validateFieldRef accepts the fields of a pod that can be exposed in a place. Fields that can be
// exposed elsewhere get NotSupported, others are invalid.
func validateFieldRef(ref *corev1.ObjectFieldSelector, supported []string, at *field.Path) field.ErrorList {
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
			return rule.ValidateQualifiedName(at, strings.ToLower(key))
		case "metadata.labels":
			return rule.ValidateQualifiedName(at, key)
		}
		return refuse("field label does not support subscript: " + ref.FieldPath)
	}
	path := ref.FieldPath
	if path == "spec.host" { // the former name
		path = "spec.nodeName"
	}
	known := []string{"spec.restartPolicy", "spec.schedulerName", "status.phase"}
	switch {
	case slices.Contains(supported, path):
		return nil
	case slices.Contains(known, path), slices.Contains(inEnv, path), slices.Contains(inFiles, path):
		return field.ErrorList{field.NotSupported(at.Child("fieldPath"), path, supported)}
	}
	return refuse("field label not supported: " + ref.FieldPath)
}

// subscript splits path['key'] into path and key.
func subscript(s string) (path, key string, ok bool) {
	s, ok = strings.CutSuffix(s, "']")
	if !ok {
		return "", "", false
	}
	path, key, ok = strings.Cut(s, "['")
	return path, key, ok && path != ""
}

// validateResourceRef accepts the resources of a container that can be exposed. A reference in a
// file must name the container.
func validateResourceRef(ref *corev1.ResourceFieldSelector, inFile bool, at *field.Path) field.ErrorList {
	supported := []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory",
		"requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
	_, name, _ := strings.Cut(ref.Resource, ".")
	pages := strings.HasPrefix(ref.Resource, "requests.hugepages-") || strings.HasPrefix(ref.Resource, "limits.hugepages-")
	known := slices.Contains(supported, ref.Resource)
	var all field.ErrorList
	switch {
	case inFile && ref.ContainerName == "":
		all = append(all, field.Required(at.Child("containerName"), ""))
	case ref.Resource == "":
		all = append(all, field.Required(at.Child("resource"), ""))
	case !known && !pages:
		all = append(all, field.NotSupported(at.Child("resource"), ref.Resource, supported))
	}
	if !known && !pages || ref.Divisor.IsZero() {
		return all
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
		return all
	}
	list := strings.Join(divisors, ", ")
	if name == "cpu" {
		list = "1m and 1"
	}
	return append(all, field.Invalid(at.Child("divisor"), ref.Resource, fmt.Sprintf("only divisor's values %s are supported with the %s resource", list, of)))
}

func validateEnvFrom(sources []corev1.EnvFromSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, source := range sources {
		if source.Prefix != "" {
			all = append(all, rule.Invalid(at.Index(i).Child("prefix"), source.Prefix, validation.IsRelaxedEnvVarName(source.Prefix))...)
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

// validateNamed requires the name of an object, or the prefix of a generated one.
func validateNamed(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return rule.Invalid(at, name, apivalidation.NameIsDNSSubdomain(name, true))
}
