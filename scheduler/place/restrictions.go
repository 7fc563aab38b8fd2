package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// VolumeRestrictions refuses nodes where a pod uses a disk that cannot be mounted twice, and all
// nodes if another pod uses a claim that only one pod may use (ReadWriteOncePod).
type VolumeRestrictions struct{}

// Name implements Plugin.
func (VolumeRestrictions) Name() string { return "VolumeRestrictions" }

// Compile implements Plugin. A change of the pods that use a claim makes another class: see
// storageKey.
func (p VolumeRestrictions) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	for _, n := range claimsOf(pod.Object) {
		if n.volume.Ephemeral == nil && c.storage.claims[pod.Object.Namespace+"/"+n.claim] == nil {
			return Rule{}, &Refusal{Plugin: p.Name(), Reasons: []string{missingClaim(n.claim)}, Final: true}
		}
	}
	var disks []*corev1.Volume
	for i := range pod.Object.Spec.Volumes {
		if v := &pod.Object.Spec.Volumes[i]; isDisk(v) {
			disks = append(disks, v)
		}
	}
	exclusives, inUse := c.exclusives(pod.Object)
	if len(disks) == 0 && !inUse {
		return Rule{}, nil
	}
	conflict := &Refusal{Plugin: p.Name(), Reasons: []string{"node(s) had no available disk"}}
	exclusive := &Refusal{
		Plugin:  p.Name(),
		Reasons: []string{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"},
	}
	return Rule{Filter: func(n *Node) *Refusal {
		for _, other := range n.Pods {
			if slices.ContainsFunc(disks, func(v *corev1.Volume) bool { return conflicts(v, other) }) {
				return conflict
			}
		}
		if slices.ContainsFunc(exclusives, func(claim string) bool { return c.usedWith(n, claim) }) {
			return exclusive
		}
		return nil
	}}, nil
}

func missingClaim(name string) string { return fmt.Sprintf("persistentvolumeclaim %q not found", name) }

// isDisk reports whether a volume is a disk without a claim that conflicts with other uses of the
// same disk.
func isDisk(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

// conflicts reports whether a pod uses a disk in a way that excludes v: disks of AWS are mounted
// once, others several times if all mounts are read-only.
func conflicts(v *corev1.Volume, p *Pod) bool {
	return slices.ContainsFunc(p.volumes, func(other corev1.Volume) bool {
		if a, b := v.GCEPersistentDisk, other.GCEPersistentDisk; a != nil && b != nil && a.PDName == b.PDName && !(a.ReadOnly && b.ReadOnly) {
			return true
		}
		if a, b := v.AWSElasticBlockStore, other.AWSElasticBlockStore; a != nil && b != nil && a.VolumeID == b.VolumeID {
			return true
		}
		if a, b := v.ISCSI, other.ISCSI; a != nil && b != nil && a.IQN == b.IQN && !(a.ReadOnly && b.ReadOnly) {
			return true
		}
		a, b := v.RBD, other.RBD
		return a != nil && b != nil && a.RBDPool == b.RBDPool && a.RBDImage == b.RBDImage && !(a.ReadOnly && b.ReadOnly) &&
			slices.ContainsFunc(a.CephMonitors, func(m string) bool { return slices.Contains(b.CephMonitors, m) })
	})
}

// exclusives returns the claims of a pod that only one pod may use, and whether one of them has a
// pod.
func (c *Cluster) exclusives(p *corev1.Pod) (claims []string, inUse bool) {
	for _, n := range claimsOf(p) {
		key := p.Namespace + "/" + n.claim
		if n.volume.Ephemeral == nil && isExclusive(c.storage.claims[key]) {
			claims, inUse = append(claims, key), inUse || c.exclusive(key)
		}
	}
	return claims, inUse
}

func isExclusive(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// usedWith reports whether a pod uses a claim, if the node with the name of n has the pods of n. So
// a victim of a preemption, which is not on the copy of its node, does not.
func (c *Cluster) usedWith(n *Node, claim string) bool {
	for p := range c.storage.users[claim] {
		if p.node.Object != nil && p.node.Name != n.Name {
			return true
		}
	}
	return slices.ContainsFunc(n.Pods, func(p *Pod) bool {
		return slices.ContainsFunc(p.volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName == claim
		})
	})
}

// exclusive reports whether a claim has a pod already and can have no other one.
func (c *Cluster) exclusive(claim string) bool {
	if !isExclusive(c.storage.claims[claim]) {
		return false
	}
	for p := range c.storage.users[claim] {
		if p.node.Object != nil {
			return true
		}
	}
	return false
}

// count adds a pod with a node to the users of its claims, or removes it.
func (s *storage) count(p *Pod, uses bool) {
	for i := range p.volumes {
		claim := p.volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		key := p.Namespace + "/" + claim.ClaimName
		switch {
		case uses && s.users[key] == nil:
			s.users[key] = map[*Pod]bool{p: true}
		case uses:
			s.users[key][p] = true
		default:
			if delete(s.users[key], p); len(s.users[key]) == 0 {
				delete(s.users, key)
			}
		}
	}
}

// storageKey returns the part of the key of a class about volumes. Classes do not follow changes of
// claims, so such a change makes a new class.
func (c *Cluster) storageKey(p *corev1.Pod) string {
	names := claimsOf(p)
	attached := slices.ContainsFunc(p.Spec.Volumes, isInline)
	if len(names) == 0 && !attached {
		return ""
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%d ", c.storage.changes)
	for _, n := range names {
		if n.volume.Ephemeral != nil {
			fmt.Fprintf(&key, "%s of %s ", n.claim, p.UID)
			continue
		}
		fmt.Fprintf(&key, "%s %v ", n.claim, c.exclusive(p.Namespace+"/"+n.claim))
	}
	return key.String()
}

// isInline reports whether a volume has no claim, and rules depend on it.
func isInline(v corev1.Volume) bool {
	return isDisk(&v) || v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.PortworxVolume != nil || v.VsphereVolume != nil
}
