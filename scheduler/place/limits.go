package place

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
)

// NodeVolumeLimits refuses nodes to which a driver can attach no more volumes (the limits of a
// CSINode), and nodes without a driver that says so (preventPodSchedulingIfMissing). Volumes of the
// drivers that were once part of Kubernetes count for the drivers that have replaced them.
type NodeVolumeLimits struct{}

// Name implements Plugin.
func (NodeVolumeLimits) Name() string { return "NodeVolumeLimits" }

// Compile implements Plugin.
func (p NodeVolumeLimits) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	translator := translation.New()
	if !slices.ContainsFunc(pod.Object.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || translator.IsInlineMigratable(&v)
	}) {
		return Rule{}, nil
	}
	a := &attachable{c.storage, translator}
	refuse := func(reason string, final bool) *Refusal {
		return &Refusal{Plugin: p.Name(), Reasons: []string{reason}, Final: final}
	}
	replaced, errReplaced := a.volumes(pod.Object, true, true)
	rest, errRest := a.volumes(pod.Object, false, true)
	return Rule{Filter: func(n *Node) *Refusal {
		csi := c.storage.csiNodes[n.Name]
		want, err := replaced, errReplaced
		if csi == nil {
			want, err = rest, errRest
		}
		if err != nil {
			return refuse(err.Error(), true)
		}
		for _, driver := range slices.Sorted(maps.Values(want)) {
			if a.lacks(driver, csi) {
				return refuse(driver+" CSI driver is not installed on the node", false)
			}
		}
		if a.exceeds(n, csi, want) {
			return refuse("node(s) exceed max volume count", false)
		}
		return nil
	}}, nil
}

// attachable finds the volumes that drivers attach to nodes.
type attachable struct {
	storage
	translator translation.CSITranslator
}

// exceeds reports whether a node has no place for the volumes in want, besides the ones that it
// has.
func (a *attachable) exceeds(n *Node, csi *storagev1.CSINode, want map[string]string) bool {
	if csi == nil || len(want) == 0 || !slices.ContainsFunc(csi.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return limitOf(d) >= 0 }) {
		return false
	}
	has := map[string]string{}
	for _, p := range n.Pods {
		volumes, _ := a.volumes(p.withVolumes(), true, false)
		maps.Copy(has, volumes)
	}
	more := map[string]int32{}
	for volume, driver := range want {
		if _, is := has[volume]; !is {
			more[driver]++
		}
	}
	maps.Copy(has, a.attached(n.Name))
	used := map[string]int32{}
	for _, driver := range has {
		used[driver]++
	}
	return slices.ContainsFunc(csi.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		limit := limitOf(d)
		return limit >= 0 && more[d.Name] > 0 && used[d.Name]+more[d.Name] > limit
	})
}

// limitOf returns how many volumes a driver can attach to a node, -1 if there is no limit.
func limitOf(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return -1
	}
	return *d.Allocatable.Count
}

// lacks reports whether a node lacks a driver that pods must not be without.
func (a *attachable) lacks(driver string, csi *storagev1.CSINode) bool {
	d := a.drivers[driver]
	if d == nil || d.Spec.PreventPodSchedulingIfMissing == nil || !*d.Spec.PreventPodSchedulingIfMissing {
		return false
	}
	return csi == nil || !slices.ContainsFunc(csi.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// volumes returns the drivers of the volumes of a pod, by driver and volume. With replaced, those
// of the drivers that were part of Kubernetes belong to the drivers that replace them, without it
// they do not count. With must, a claim that does not exist is an error.
func (a *attachable) volumes(p *corev1.Pod, replaced, must bool) (map[string]string, error) {
	all := map[string]string{}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(p, v)
		default:
			if driver, handle := a.inline(p, v, replaced); driver != "" {
				all[driver+"/"+handle] = driver
			}
			continue
		}
		claim := a.claims[p.Namespace+"/"+name]
		if claim == nil {
			if must {
				return nil, fmt.Errorf("looking up PVC %s/%s: %s", p.Namespace, name, missingClaim(name))
			}
			continue
		}
		if v.Ephemeral != nil {
			if err := ephemeral.VolumeIsForPod(p, claim); err != nil {
				if must {
					return nil, err
				}
				continue
			}
		}
		if driver, handle := a.claimed(claim, replaced); driver != "" && handle != "" {
			all[driver+"/"+handle] = driver
		}
	}
	return all, nil
}

// inline returns the driver of a volume without a claim, and its name there; "" if no driver
// attaches it.
func (a *attachable) inline(p *corev1.Pod, v *corev1.Volume, replaced bool) (driver, handle string) {
	if !a.translator.IsInlineMigratable(v) {
		return "", ""
	}
	plugin, err := a.translator.GetInTreePluginNameFromSpec(nil, v)
	if err != nil || !replaced || !isReplaced(plugin) {
		return "", ""
	}
	as, err := a.translator.TranslateInTreeInlineVolumeToCSI(klog.Background(), v, p.Namespace)
	if err != nil || as == nil || as.Spec.CSI == nil {
		return "", ""
	}
	if driver, err = a.translator.GetCSINameFromInTreeName(plugin); err != nil {
		return "", ""
	}
	return driver, as.Spec.CSI.VolumeHandle
}

// claimed returns the driver of the volume of a claim, and its name there. A claim without a volume
// counts for the driver that will provision it.
func (a *attachable) claimed(claim *corev1.PersistentVolumeClaim, replaced bool) (driver, handle string) {
	v := a.storage.volumes[claim.Spec.VolumeName]
	if v == nil {
		class := a.classes[className(claim)]
		if class == nil {
			return "", ""
		}
		driver = class.Provisioner
		if a.translator.IsMigratableIntreePluginByName(driver) {
			if !replaced || !isReplaced(driver) {
				return "", ""
			}
			driver, _ = a.translator.GetCSINameFromInTreeName(driver)
		}
		return driver, "of claim " + claim.Namespace + "/" + claim.Name
	}
	source := v.Spec.CSI
	if source == nil {
		if !a.translator.IsPVMigratable(v) {
			return "", ""
		}
		plugin, err := a.translator.GetInTreePluginNameFromSpec(v, nil)
		if err != nil || !replaced || !isReplaced(plugin) {
			return "", ""
		}
		as, err := a.translator.TranslateInTreePVToCSI(klog.Background(), v)
		if err != nil || as.Spec.CSI == nil {
			return "", ""
		}
		source = as.Spec.CSI
	}
	return source.Driver, source.VolumeHandle
}

// attached returns the volumes that are attached to a node, also without a pod.
func (a *attachable) attached(node string) map[string]string {
	all := map[string]string{}
	for _, at := range a.attachments[node] {
		if at.Spec.Attacher == "" || at.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if v := a.storage.volumes[*at.Spec.Source.PersistentVolumeName]; v != nil && v.Spec.CSI != nil {
			all[at.Spec.Attacher+"/"+v.Spec.CSI.VolumeHandle] = at.Spec.Attacher
		}
	}
	return all
}

// isReplaced reports whether kube-scheduler counts the volumes of a driver that was part of
// Kubernetes for the driver that replaces it.
func isReplaced(plugin string) bool {
	switch plugin {
	case plugins.AWSEBSInTreePluginName, plugins.PortworxVolumePluginName, plugins.GCEPDInTreePluginName, plugins.AzureDiskInTreePluginName,
		plugins.CinderInTreePluginName:
		return true
	}
	return false
}

// SetCSINode adds or replaces the drivers of a node and their limits.
func (c *Cluster) SetCSINode(object *storagev1.CSINode) {
	c.storage.csiNodes[object.Name] = object
	c.touch(object.Name)
}

// RemoveCSINode forgets the drivers of a node.
func (c *Cluster) RemoveCSINode(name string) {
	delete(c.storage.csiNodes, name)
	c.touch(name)
}

// SetCSIDriver adds or replaces a driver.
func (c *Cluster) SetCSIDriver(object *storagev1.CSIDriver) {
	c.storage.drivers[object.Name] = object
	c.storage.changes++
}

// RemoveCSIDriver forgets a driver.
func (c *Cluster) RemoveCSIDriver(name string) {
	delete(c.storage.drivers, name)
	c.storage.changes++
}

// SetAttachment adds or replaces the attachment of a volume to a node.
func (c *Cluster) SetAttachment(object *storagev1.VolumeAttachment) {
	node := object.Spec.NodeName
	if c.storage.attachments[node] == nil {
		c.storage.attachments[node] = map[string]*storagev1.VolumeAttachment{}
	}
	c.storage.attachments[node][object.Name] = object
	c.touch(node)
}

// RemoveAttachment forgets an attachment.
func (c *Cluster) RemoveAttachment(object *storagev1.VolumeAttachment) {
	node := object.Spec.NodeName
	if delete(c.storage.attachments[node], object.Name); len(c.storage.attachments[node]) == 0 {
		delete(c.storage.attachments, node)
	}
	c.touch(node)
}

// touch has the verdicts on a node computed again.
func (c *Cluster) touch(node string) {
	if n := c.nodes[node]; n != nil {
		c.changed(n)
	}
}
