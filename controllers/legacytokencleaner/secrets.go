package legacytokencleaner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// secretsOf returns the names of the secrets that a pod refers to, sorted.
func secretsOf(p *corev1.Pod) []string {
	var names []string
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			add(ref.Name)
		}
	}
	for _, ref := range p.Spec.ImagePullSecrets {
		add(ref.Name)
	}
	environment := func(from []corev1.EnvFromSource, vars []corev1.EnvVar) {
		for _, e := range from {
			if e.SecretRef != nil {
				add(e.SecretRef.Name)
			}
		}
		for _, v := range vars {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				add(v.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		environment(c.EnvFrom, c.Env)
	}
	for _, c := range p.Spec.EphemeralContainers {
		environment(c.EnvFrom, c.Env)
	}
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.Secret != nil:
			add(v.Secret.SecretName)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					add(s.Secret.Name)
				}
			}
		case v.CSI != nil:
			local(v.CSI.NodePublishSecretRef)
		case v.AzureFile != nil:
			add(v.AzureFile.SecretName)
		case v.CephFS != nil:
			local(v.CephFS.SecretRef)
		case v.Cinder != nil:
			local(v.Cinder.SecretRef)
		case v.FlexVolume != nil:
			local(v.FlexVolume.SecretRef)
		case v.RBD != nil:
			local(v.RBD.SecretRef)
		case v.ScaleIO != nil:
			local(v.ScaleIO.SecretRef)
		case v.ISCSI != nil:
			local(v.ISCSI.SecretRef)
		case v.StorageOS != nil:
			local(v.StorageOS.SecretRef)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
