package pods

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"
	"github.com/kapok-dev/kapok/internal/kinds/storage"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMounts returns the errors of a container's volume mounts. The paths without an index are
// Kubernetes'.
func validateMounts(c *corev1.Container, volumes volumeSet, at *field.Path) field.ErrorList {
	var all field.ErrorList
	devices, devicePaths := map[string]bool{}, map[string]bool{}
	for _, device := range c.VolumeDevices {
		devices[device.Name], devicePaths[device.DevicePath] = true, true
	}
	paths := map[string]bool{}
	for i, mount := range c.VolumeMounts {
		item := at.Index(i)
		if mount.Name == "" {
			all = append(all, field.Required(item.Child("name"), ""))
		}
		if _, ok := volumes[mount.Name]; !ok {
			all = append(all, field.NotFound(item.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			all = append(all, field.Required(item.Child("mountPath"), ""))
		}
		if paths[mount.MountPath] {
			all = append(all, field.Invalid(item.Child("mountPath"), mount.MountPath, "must be unique"))
		}
		paths[mount.MountPath] = true
		if devices[mount.Name] {
			all = append(all, field.Invalid(item.Child("name"), mount.Name, "must not already exist in volumeDevices"))
		}
		if devicePaths[mount.MountPath] {
			all = append(all, field.Invalid(item.Child("mountPath"), mount.MountPath, "must not already exist as a path in volumeDevices"))
		}
		if mount.SubPath != "" {
			all = append(all, storage.ValidateRelative(mount.SubPath, at.Child("subPath"))...)
		}
		if mount.SubPathExpr != "" {
			if mount.SubPath != "" {
				all = append(all, field.Invalid(item.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			all = append(all, storage.ValidateRelative(mount.SubPathExpr, at.Child("subPathExpr"))...)
		}
		all = append(all, validatePropagation(&mount, c, at)...)
	}
	return all
}

// validatePropagation returns the errors of mount propagation and recursive read-only mounts.
func validatePropagation(mount *corev1.VolumeMount, c *corev1.Container, at *field.Path) field.ErrorList {
	var all field.ErrorList
	mode := mount.MountPropagation
	if mode != nil {
		at := at.Child("mountPropagation")
		all = append(all, rule.Supported(at, *mode, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
		privileged := c.SecurityContext != nil && rule.IsTrue(c.SecurityContext.Privileged)
		if *mode == corev1.MountPropagationBidirectional && !privileged {
			all = append(all, field.Forbidden(at, "Bidirectional mount propagation is available only to privileged containers"))
		}
	}
	if mount.RecursiveReadOnly == nil {
		return all
	}
	at = at.Child("recursiveReadOnly")
	switch recursive := *mount.RecursiveReadOnly; recursive {
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !mount.ReadOnly {
			all = append(all, field.Forbidden(at, "may only be specified when readOnly is true"))
		}
		if mode != nil && *mode != corev1.MountPropagationNone {
			all = append(all, field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
		}
	default:
		all = append(all, rule.Supported(at, recursive, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)...)
	}
	return all
}

// validateDevices returns the errors of block devices.
func validateDevices(c *corev1.Container, volumes volumeSet, at *field.Path) field.ErrorList {
	var all field.ErrorList
	mounts, mountPaths := map[string]bool{}, map[string]bool{}
	for _, mount := range c.VolumeMounts {
		mounts[mount.Name], mountPaths[mount.MountPath] = true, true
	}
	names, paths := map[string]bool{}, map[string]bool{}
	for i, device := range c.VolumeDevices {
		name, target := at.Index(i).Child("name"), at.Index(i).Child("devicePath")
		if device.Name == "" {
			all = append(all, field.Required(name, ""))
		}
		if names[device.Name] {
			all = append(all, field.Invalid(name, device.Name, "must be unique"))
		}
		switch volume, ok := volumes[device.Name]; {
		case !ok:
			all = append(all, field.NotFound(name, device.Name))
		case volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil:
			all = append(all, field.Invalid(name, device.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		if device.DevicePath == "" {
			all = append(all, field.Required(target, ""))
		}
		if paths[device.DevicePath] {
			all = append(all, field.Invalid(target, device.DevicePath, "must be unique"))
		}
		if len(rule.ValidateNoBacksteps(device.DevicePath, target)) > 0 {
			all = append(all, field.Invalid(target, device.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths[device.DevicePath] = true
		}
		if mounts[device.Name] {
			all = append(all, field.Invalid(name, device.Name, "must not already exist in volumeMounts"))
		}
		if mountPaths[device.DevicePath] {
			all = append(all, field.Invalid(target, device.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		names[device.Name] = device.Name != ""
	}
	return all
}

// validateFile accepts relative paths of files in a volume that the kubelet fills.
func validateFile(target string, at *field.Path) field.ErrorList {
	all := storage.ValidateRelative(target, at)
	if strings.HasPrefix(target, "..") && !strings.HasPrefix(target, "../") {
		all = append(all, field.Invalid(at, target, "must not start with '..'"))
	}
	return all
}
