package node

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podThings returns the things that the node of a pod has access to because of the pod, sorted and
// without duplicates.
func podThings(pod *corev1.Pod) []thing {
	all := []thing{{podThing, pod.Namespace, pod.Name}}
	if _, mirrors := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirrors {
		return all
	}
	add := func(kind thingKind, name string) {
		if name != "" {
			all = append(all, thing{kind, pod.Namespace, name})
		}
	}
	add(accountThing, pod.Spec.ServiceAccountName)
	for name := range PodSecrets(&pod.Spec) {
		add(secretThing, name)
	}
	for name := range PodConfigMaps(&pod.Spec) {
		add(configMapThing, name)
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			add(claimThing, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			add(claimThing, pod.Name+"-"+v.Name)
		}
	}
	for i := range pod.Spec.ResourceClaims {
		add(resourceClaimThing, claimOf(pod, &pod.Spec.ResourceClaims[i]))
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		add(resourceClaimThing, extended.ResourceClaimName)
	}
	slices.SortFunc(all, thing.compare)
	return slices.Compact(all)
}

// claimOf returns the name of the resource claim that a pod uses; "" if it is not needed, or not
// created yet.
func claimOf(pod *corev1.Pod, c *corev1.PodResourceClaim) string {
	switch {
	case c.ResourceClaimName != nil:
		return *c.ResourceClaimName
	case c.ResourceClaimTemplateName == nil:
		return ""
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == c.Name && status.ResourceClaimName != nil {
			return *status.ResourceClaimName
		}
	}
	return ""
}

// PodSecrets yields the names of the secrets that a pod refers to, except for those of its volume
// claims. Names repeat, and may be "".
func PodSecrets(spec *corev1.PodSpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, ref := range spec.ImagePullSecrets {
			if !yield(ref.Name) {
				return
			}
		}
		for c := range containers(spec) {
			for _, from := range c.EnvFrom {
				if from.SecretRef != nil && !yield(from.SecretRef.Name) {
					return
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !yield(e.ValueFrom.SecretKeyRef.Name) {
					return
				}
			}
		}
		for i := range spec.Volumes {
			for _, name := range sourceSecrets(&spec.Volumes[i].VolumeSource) {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// sourceSecrets returns the names of the secrets that a volume refers to.
func sourceSecrets(s *corev1.VolumeSource) []string {
	var ref *corev1.LocalObjectReference
	switch {
	case s.AzureFile != nil:
		return []string{s.AzureFile.SecretName}
	case s.CephFS != nil:
		ref = s.CephFS.SecretRef
	case s.Cinder != nil:
		ref = s.Cinder.SecretRef
	case s.FlexVolume != nil:
		ref = s.FlexVolume.SecretRef
	case s.Projected != nil:
		var names []string
		for _, p := range s.Projected.Sources {
			if p.Secret != nil {
				names = append(names, p.Secret.Name)
			}
		}
		return names
	case s.RBD != nil:
		ref = s.RBD.SecretRef
	case s.Secret != nil:
		return []string{s.Secret.SecretName}
	case s.ScaleIO != nil:
		ref = s.ScaleIO.SecretRef
	case s.ISCSI != nil:
		ref = s.ISCSI.SecretRef
	case s.StorageOS != nil:
		ref = s.StorageOS.SecretRef
	case s.CSI != nil:
		ref = s.CSI.NodePublishSecretRef
	}
	if ref == nil {
		return nil
	}
	return []string{ref.Name}
}

// PodConfigMaps yields the names of the config maps that a pod refers to. Names repeat, and may be
// "".
func PodConfigMaps(spec *corev1.PodSpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		for c := range containers(spec) {
			for _, from := range c.EnvFrom {
				if from.ConfigMapRef != nil && !yield(from.ConfigMapRef.Name) {
					return
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && !yield(e.ValueFrom.ConfigMapKeyRef.Name) {
					return
				}
			}
		}
		for i := range spec.Volumes {
			switch s := &spec.Volumes[i].VolumeSource; {
			case s.Projected != nil:
				for _, p := range s.Projected.Sources {
					if p.ConfigMap != nil && !yield(p.ConfigMap.Name) {
						return
					}
				}
			case s.ConfigMap != nil:
				if !yield(s.ConfigMap.Name) {
					return
				}
			}
		}
	}
}

// containers yields all containers of a pod, of each sort.
func containers(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// volumeSecrets returns the secrets that kubelets need for a volume with a claim, sorted and
// without duplicates. A reference without a namespace is to one of the claim, where the API has
// allowed it.
func volumeSecrets(volume *corev1.PersistentVolume) []thing {
	var all []thing
	home := volume.Spec.ClaimRef.Namespace
	add := func(namespace, name string) {
		if name != "" {
			all = append(all, thing{secretThing, namespace, name})
		}
	}
	local := func(ref *corev1.SecretReference) {
		if ref != nil {
			add(cmp.Or(ref.Namespace, home), ref.Name)
		}
	}
	switch s := &volume.Spec.PersistentVolumeSource; {
	case s.AzureFile != nil:
		namespace := home
		if s.AzureFile.SecretNamespace != nil {
			namespace = cmp.Or(*s.AzureFile.SecretNamespace, home)
		}
		add(namespace, s.AzureFile.SecretName)
	case s.CephFS != nil:
		local(s.CephFS.SecretRef)
	case s.Cinder != nil:
		if s.Cinder.SecretRef != nil {
			add(s.Cinder.SecretRef.Namespace, s.Cinder.SecretRef.Name)
		}
	case s.FlexVolume != nil:
		local(s.FlexVolume.SecretRef)
	case s.RBD != nil:
		local(s.RBD.SecretRef)
	case s.ScaleIO != nil:
		local(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		local(s.ISCSI.SecretRef)
	case s.StorageOS != nil:
		if s.StorageOS.SecretRef != nil {
			add(s.StorageOS.SecretRef.Namespace, s.StorageOS.SecretRef.Name)
		}
	case s.CSI != nil:
		for _, ref := range []*corev1.SecretReference{s.CSI.NodePublishSecretRef, s.CSI.NodeStageSecretRef, s.CSI.NodeExpandSecretRef} {
			if ref != nil {
				add(ref.Namespace, ref.Name)
			}
		}
	}
	slices.SortFunc(all, thing.compare)
	return slices.Compact(all)
}
