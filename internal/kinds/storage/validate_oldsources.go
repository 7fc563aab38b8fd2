package storage

import (
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the sources of persistent volumes that CSI drivers have replaced and that have more
// fields than a name.

func validatePersistentGlusterfs(gluster *corev1.GlusterfsPersistentVolumeSource, at *field.Path) field.ErrorList {
	all := append(rule.RequireText(gluster.EndpointsName, at.Child("endpoints")), rule.RequireText(gluster.Path, at.Child("path"))...)
	if ns := gluster.EndpointsNamespace; ns != nil {
		problems := []string{"if the endpointnamespace is set, it must be a valid namespace name"}
		if *ns != "" {
			problems = apivalidation.ValidateNamespaceName(*ns, false)
		}
		all = append(all, rule.Invalid(at.Child("endpointsNamespace"), *ns, problems)...)
	}
	return all
}

func validatePersistentISCSI(iscsi *corev1.ISCSIPersistentVolumeSource, volume string, at *field.Path) field.ErrorList {
	all := rule.RequireText(iscsi.TargetPortal, at.Child("targetPortal"))
	if iscsi.InitiatorName != nil && len(volume+":"+iscsi.TargetPortal) > 64 {
		all = append(all, field.Invalid(at.Child("targetportal"), iscsi.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if iscsi.IQN == "" {
		all = append(all, field.Required(at.Child("iqn"), ""))
	} else {
		all = append(all, validatePersistentISCSIName(iscsi.IQN, at.Child("iqn"))...)
	}
	all = append(all, validateByte(iscsi.Lun, at.Child("lun"))...)
	if secret := at.Child("secretRef"); iscsi.SecretRef != nil {
		all = append(all, rule.RequireText(iscsi.SecretRef.Name, secret.Child("name"))...)
	} else if iscsi.DiscoveryCHAPAuth || iscsi.SessionCHAPAuth {
		all = append(all, field.Required(secret, ""))
	}
	if iscsi.InitiatorName != nil {
		all = append(all, validatePersistentISCSIName(*iscsi.InitiatorName, at.Child("initiatorname"))...)
	}
	return all
}

func validatePersistentFlex(flex *corev1.FlexPersistentVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(flex.Driver, at.Child("driver"))
	for _, option := range slices.Sorted(maps.Keys(flex.Options)) {
		domain, _, _ := strings.Cut("."+strings.ToLower(option), "/")
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			all = append(all, field.Invalid(at.Child("options").Key(option), option, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return all
}

func validatePersistentStorageOS(storage *corev1.StorageOSPersistentVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(storage.VolumeName, at.Child("volumeName"))
	if storage.VolumeName != "" {
		all = append(all, rule.ValidateLabel(at.Child("volumeName"), storage.VolumeName)...)
	}
	if storage.VolumeNamespace != "" {
		all = append(all, rule.ValidateLabel(at.Child("volumeNamespace"), storage.VolumeNamespace)...)
	}
	if ref := storage.SecretRef; ref != nil {
		all = append(all, rule.RequireText(ref.Name, at.Child("secretRef", "name"))...)
		all = append(all, rule.RequireText(ref.Namespace, at.Child("secretRef", "namespace"))...)
	}
	return all
}

func validatePersistentISCSIName(name string, at *field.Path) field.ErrorList {
	if format := iscsiNames[name[:min(len(name), 3)]]; format != nil && format().MatchString(name) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "must be valid format")}
}
