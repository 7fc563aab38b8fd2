package pods

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/storage"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations with a meaning for pods, most of them older than the fields that replace them.
const (
	mirrorAnnotation      = "kubernetes.io/config.mirror"
	tolerationsAnnotation = "scheduler.alpha.kubernetes.io/tolerations"
	appArmorAnnotation    = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
)

// isMirror reports whether a pod mirrors a static pod of a kubelet.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[mirrorAnnotation]
	return ok
}

func validatePodAnnotations(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if value, ok := annotations[mirrorAnnotation]; ok && spec.NodeName == "" {
		all = append(all, field.Invalid(path.Key(mirrorAnnotation), value, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if text := annotations[tolerationsAnnotation]; text != "" {
		var tolerations []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &tolerations); err != nil {
			all = append(all, field.Invalid(path, tolerationsAnnotation, err.Error()))
		} else {
			all = append(all, ValidateTolerations(tolerations, path.Child(tolerationsAnnotation))...)
		}
	}
	if cost, ok := annotations[corev1.PodDeletionCost]; ok && !isDeletionCost(cost) {
		all = append(all, field.Invalid(path.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer"))
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		name, ofContainer := strings.CutPrefix(key, appArmorAnnotation)
		switch {
		case key == corev1.SeccompPodAnnotationKey, strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix):
			all = append(all, validateSeccompName(value, path.Child(key))...)
		case ofContainer:
			if !slices.Contains(containerNames(spec), name) {
				all = append(all, field.Invalid(path.Key(key), name, "container not found"))
			}
			if !isAppArmorName(value) {
				all = append(all, field.Invalid(path.Key(key), value, fmt.Sprintf("invalid AppArmor profile name: %q", value)))
			}
		}
	}
	return all
}

// isDeletionCost reports whether s is an integer without a plus sign and leading zeros.
func isDeletionCost(s string) bool {
	_, err := strconv.ParseInt(s, 10, 32)
	return err == nil && (s == "0" || s[0] != '+' && s[0] != '0')
}

func containerNames(spec *corev1.PodSpec) []string {
	var names []string
	eachContainer(spec, nil, func(c *corev1.Container, _ *field.Path) { names = append(names, c.Name) })
	return names
}

func validateSeccompName(name string, path *field.Path) field.ErrorList {
	if local, ok := strings.CutPrefix(name, corev1.SeccompLocalhostProfileNamePrefix); ok {
		return storage.ValidateRelative(local, path)
	}
	switch name {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be a valid seccomp profile")}
}

func isAppArmorName(name string) bool {
	switch name {
	case "", corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return true
	}
	return strings.HasPrefix(name, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
}

// validatePodAnnotationUpdate rejects changes of annotations that kubelets rely on.
func validatePodAnnotationUpdate(pod, old *corev1.Pod) field.ErrorList {
	var all field.ErrorList
	path := field.NewPath("metadata", "annotations")
	for _, key := range slices.Sorted(maps.Keys(old.Annotations)) {
		if now, ok := pod.Annotations[key]; ok && now == old.Annotations[key] {
			continue
		}
		all = append(all, forbidAnnotation(key, "may not remove or update", path)...)
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if _, ok := old.Annotations[key]; !ok {
			all = append(all, forbidAnnotation(key, "may not add", path)...)
		}
	}
	return append(all, validatePodAnnotations(pod.Annotations, &pod.Spec, path)...)
}

func forbidAnnotation(key, what string, path *field.Path) field.ErrorList {
	switch {
	case strings.HasPrefix(key, appArmorAnnotation):
		return field.ErrorList{field.Forbidden(path.Key(key), what+" AppArmor annotations")}
	case key == mirrorAnnotation:
		return field.ErrorList{field.Forbidden(path.Key(key), what+" mirror pod annotation")}
	}
	return nil
}

// validateSeccompMatches requires an annotation and a field for the same profile to agree.
func validateSeccompMatches(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	check := func(key string, profile *corev1.SeccompProfile, at *field.Path) {
		name, ok := annotations[key]
		if !ok || profile == nil {
			return
		}
		match := true
		switch profile.Type {
		case corev1.SeccompProfileTypeUnconfined:
			match = name == corev1.SeccompProfileNameUnconfined
		case corev1.SeccompProfileTypeRuntimeDefault:
			match = name == corev1.SeccompProfileRuntimeDefault || name == corev1.DeprecatedSeccompProfileDockerDefault
		case corev1.SeccompProfileTypeLocalhost:
			local, isLocal := strings.CutPrefix(name, corev1.SeccompLocalhostProfileNamePrefix)
			if match = isLocal; match && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != local) {
				all = append(all, field.Forbidden(at.Child("localhostProfile"), "seccomp profile in annotation and field must match"))
			}
		}
		if !match {
			all = append(all, field.Forbidden(at.Child("type"), "seccomp type in annotation and field must match"))
		}
	}
	if sc := spec.SecurityContext; sc != nil {
		check(corev1.SeccompPodAnnotationKey, sc.SeccompProfile, path.Child("securityContext", "seccompProfile"))
	}
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		if sc := c.SecurityContext; sc != nil {
			check(corev1.SeccompContainerAnnotationKeyPrefix+c.Name, sc.SeccompProfile, at.Child("securityContext", "seccompProfile"))
		}
	})
	return all
}

// validateAppArmorMatches is validateSeccompMatches for AppArmor, whose annotations are per
// container and are also compared with the profile of the pod.
func validateAppArmorMatches(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if isWindows(spec) {
		return nil
	}
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		var profile *corev1.AppArmorProfile
		if sc := spec.SecurityContext; sc != nil {
			profile = sc.AppArmorProfile
		}
		if sc := c.SecurityContext; sc != nil && sc.AppArmorProfile != nil {
			profile = sc.AppArmorProfile
		}
		name, ok := annotations[appArmorAnnotation+c.Name]
		if !ok || profile == nil {
			return
		}
		at = at.Child("securityContext", "appArmorProfile")
		match := true
		switch profile.Type {
		case corev1.AppArmorProfileTypeUnconfined:
			match = name == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
		case corev1.AppArmorProfileTypeRuntimeDefault:
			match = name == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
		case corev1.AppArmorProfileTypeLocalhost:
			local, isLocal := strings.CutPrefix(name, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
			if match = isLocal; match && (profile.LocalhostProfile == nil || *profile.LocalhostProfile != local) {
				all = append(all, field.Forbidden(at.Child("localhostProfile"), "apparmor profile in annotation and field must match"))
			}
		}
		if !match {
			all = append(all, field.Forbidden(at.Child("type"), "apparmor type in annotation and field must match"))
		}
	})
	return all
}
