package validation

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const modeMessage = "must be a number between 0 and 0777 (octal), both inclusive"

// validateVolumes returns the volumes in which it finds no fault.
func validateVolumes(volumes []corev1.Volume, at *field.Path) (volumeSet, field.ErrorList) {
	var all field.ErrorList
	valid := volumeSet{}
	for i := range volumes {
		volume := &volumes[i]
		problems := validateVolumeSource(&volume.VolumeSource, at.Index(i))
		if volume.Name == "" {
			problems = append(problems, field.Required(at.Index(i).Child("name"), ""))
		} else {
			problems = append(problems, validateLabelled(at.Index(i).Child("name"), volume.Name)...)
		}
		if _, twice := valid[volume.Name]; twice {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), volume.Name))
		}
		if len(problems) == 0 {
			valid[volume.Name] = volume.VolumeSource
		}
		all = append(all, problems...)
	}
	return valid, all
}

// validateVolumeSource judges the first source that is set, and refuses others.
func validateVolumeSource(source *corev1.VolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	names := sourceNames(source)
	if len(names) == 0 {
		return field.ErrorList{field.Required(at, "must specify a volume type")}
	}
	for _, name := range names[1:] {
		all = append(all, field.Forbidden(at.Child(name), "may not specify more than 1 volume type"))
	}
	at = at.Child(names[0])
	switch names[0] {
	case "emptyDir":
		if limit := source.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
			all = append(all, field.Forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
	case "hostPath":
		all = append(all, validateHostPath(source.HostPath, at)...)
	case "secret":
		all = append(all, requireText(source.Secret.SecretName, at.Child("secretName"))...)
		all = append(all, validateMode(source.Secret.DefaultMode, at.Child("defaultMode"))...)
		all = append(all, validateItems(source.Secret.Items, at.Child("items"))...)
	case "configMap":
		all = append(all, requireText(source.ConfigMap.Name, at.Child("name"))...)
		all = append(all, validateMode(source.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
		all = append(all, validateItems(source.ConfigMap.Items, at.Child("items"))...)
	case "persistentVolumeClaim":
		all = append(all, requireText(source.PersistentVolumeClaim.ClaimName, at.Child("claimName"))...)
	case "downwardAPI":
		all = append(all, validateMode(source.DownwardAPI.DefaultMode, at.Child("defaultMode"))...)
	case "projected":
		all = append(all, validateMode(source.Projected.DefaultMode, at.Child("defaultMode"))...)
	}
	return all
}

// sourceNames are the JSON names of the sources that are set, emptyDir first.
func sourceNames(source *corev1.VolumeSource) []string {
	var names []string
	v := reflect.ValueOf(source).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "emptyDir" {
			names = append([]string{name}, names...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

func validateHostPath(host *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if host.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	all := validateNoBacksteps(host.Path, at.Child("path"))
	if host.Type == nil || *host.Type == corev1.HostPathUnset {
		return all
	}
	return append(all, oneOf(at.Child("type"), *host.Type, corev1.HostPathUnset,
		corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate,
		corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)...)
}

func validateItems(items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, item := range items {
		at := at.Index(i)
		all = append(all, requireText(item.Key, at.Child("key"))...)
		all = append(all, requireText(item.Path, at.Child("path"))...)
		all = append(all, validateRelative(item.Path, at.Child("path"))...)
		if strings.HasPrefix(item.Path, "..") && !strings.HasPrefix(item.Path, "../") {
			all = append(all, field.Invalid(at.Child("path"), item.Path, "must not start with '..'"))
		}
		all = append(all, validateMode(item.Mode, at.Child("mode"))...)
	}
	return all
}

func validateMode(mode *int32, at *field.Path) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *mode, modeMessage)}
}

func requireText(s string, at *field.Path) field.ErrorList {
	if s != "" {
		return nil
	}
	return field.ErrorList{field.Required(at, "")}
}
