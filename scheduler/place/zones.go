package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// VolumeZone refuses nodes outside the zones and regions that the labels of a volume name.
type VolumeZone struct{}

// Name implements Plugin.
func (VolumeZone) Name() string { return "VolumeZone" }

// zoneLabels are the labels of volumes and nodes, with the names that replace them.
var zoneLabels = []struct{ key, now string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// A zoneLimit is a label that a node must have, with one of the values.
type zoneLimit struct {
	key, now string
	values   []string
}

// Compile implements Plugin.
func (p VolumeZone) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	var limits []zoneLimit
	for _, n := range claimsOf(pod.Object) {
		if n.volume.Ephemeral != nil {
			continue // as in kube-scheduler
		}
		v, reason := c.volumeOf(pod.Object.Namespace, n.claim)
		if reason != "" {
			return Rule{}, &Refusal{Plugin: p.Name(), Reasons: []string{reason}, Final: true}
		}
		if v != nil {
			limits = append(limits, limitsOf(v)...)
		}
	}
	if len(limits) == 0 {
		return Rule{}, nil
	}
	elsewhere := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) had no available volume zone"}, Final: true}
	return Rule{Filter: func(n *Node) *Refusal {
		set := n.Object.Labels
		if !slices.ContainsFunc(zoneLabels, func(l struct{ key, now string }) bool { _, ok := set[l.key]; return ok }) {
			return nil // a cluster without zones
		}
		for _, l := range limits {
			value, ok := set[l.key]
			if !ok {
				value, ok = set[l.now]
			}
			if !ok || !slices.Contains(l.values, value) {
				return elsewhere
			}
		}
		return nil
	}}, nil
}

// volumeOf returns the volume of a claim, nil if it has none yet, or the reason why a pod with it
// cannot run.
func (c *Cluster) volumeOf(namespace, name string) (v *corev1.PersistentVolume, reason string) {
	claim := c.storage.claims[namespace+"/"+name]
	if claim == nil {
		return nil, missingClaim(name)
	}
	if claim.Spec.VolumeName != "" {
		if v := c.storage.volumes[claim.Spec.VolumeName]; v != nil {
			return v, ""
		}
		return nil, fmt.Sprintf("persistentvolume %q not found", claim.Spec.VolumeName)
	}
	class := className(claim)
	if class == "" {
		return nil, "PersistentVolumeClaim had no pv name and storageClass name"
	}
	switch of := c.storage.classes[class]; {
	case of == nil:
		return nil, fmt.Sprintf("storageclass.storage.k8s.io %q not found", class)
	case of.VolumeBindingMode == nil:
		return nil, fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", class)
	case *of.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, "PersistentVolume had no name"
	}
	return nil, ""
}

// limitsOf returns the labels that a volume demands of nodes. A label may name several zones,
// separated by two underscores; one with an empty name is ignored.
func limitsOf(v *corev1.PersistentVolume) (all []zoneLimit) {
	for _, l := range zoneLabels {
		text, ok := v.Labels[l.key]
		if !ok {
			continue
		}
		values := strings.Split(text, "__")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !slices.Contains(values, "") {
			all = append(all, zoneLimit{l.key, l.now, values})
		}
	}
	return all
}
