package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"
)

// SelectedNode is the annotation of a claim by which a volume is provisioned for a node.
const SelectedNode = "volume.kubernetes.io/selected-node"

// noProvisioner is the provisioner of classes whose volumes an administrator creates.
const noProvisioner = "kubernetes.io/no-provisioner"

// storage holds the claims, volumes and classes that the scheduler has received.
type storage struct {
	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	drivers map[string]*storagev1.CSIDriver
	// capacities are those of drivers, by namespace/name.
	capacities map[string]*storagev1.CSIStorageCapacity
	changes    int // of the above

	users       map[string]map[*Pod]bool // with nodes, by claim
	csiNodes    map[string]*storagev1.CSINode
	attachments map[string]map[string]*storagev1.VolumeAttachment // by node and name
}

// SetClaim adds or replaces a claim.
func (c *Cluster) SetClaim(claim *corev1.PersistentVolumeClaim) {
	c.storage.claims[claim.Namespace+"/"+claim.Name] = claim
	c.storage.changes++
}

// RemoveClaim forgets a claim.
func (c *Cluster) RemoveClaim(namespace, name string) {
	delete(c.storage.claims, namespace+"/"+name)
	c.storage.changes++
}

// SetVolume adds or replaces a volume.
func (c *Cluster) SetVolume(v *corev1.PersistentVolume) {
	c.storage.volumes[v.Name] = v
	c.storage.changes++
}

// RemoveVolume forgets a volume.
func (c *Cluster) RemoveVolume(name string) {
	delete(c.storage.volumes, name)
	c.storage.changes++
}

// SetStorageClass adds or replaces a class.
func (c *Cluster) SetStorageClass(class *storagev1.StorageClass) {
	c.storage.classes[class.Name] = class
	c.storage.changes++
}

// RemoveStorageClass forgets a class.
func (c *Cluster) RemoveStorageClass(name string) {
	delete(c.storage.classes, name)
	c.storage.changes++
}

// VolumeBinding refuses nodes that cannot have the volumes of a pod: those that exist, and those
// that will be chosen or provisioned when the pod has a node. It prefers nodes where these use less
// of the capacity.
type VolumeBinding struct {
	// Shape is the function from the part of a capacity that is used to the score, its points in the
	// order of their utilization. Default: the less is used, the better.
	Shape []ShapePoint
}

// Name implements Plugin.
func (VolumeBinding) Name() string { return "VolumeBinding" }

// Compile implements Plugin.
func (p VolumeBinding) Compile(c *Cluster, pod *Pod) (Rule, *Refusal) {
	names := claimsOf(pod.Object)
	if len(names) == 0 {
		return Rule{}, nil
	}
	no := func(reason string) (Rule, *Refusal) {
		return Rule{}, &Refusal{Plugin: p.Name(), Reasons: []string{reason}, Final: true}
	}
	var bound []*corev1.PersistentVolume // nil for one that does not exist
	var open []*corev1.PersistentVolumeClaim
	immediate := false
	for _, n := range names {
		claim := c.storage.claims[pod.Object.Namespace+"/"+n.claim]
		if reason := unusable(pod.Object, n, claim); reason != "" {
			return no(reason)
		}
		switch {
		case claim.Spec.VolumeName != "" && isBound(claim):
			bound = append(bound, c.storage.volumes[claim.Spec.VolumeName])
		case c.waits(claim) && claim.Spec.VolumeName == "":
			open = append(open, claim)
		default:
			immediate = true
		}
	}
	if immediate {
		return no("pod has unbound immediate PersistentVolumeClaims")
	}
	rule := Rule{Filter: func(n *Node) *Refusal {
		var reasons []string
		missing := false
		for _, v := range bound { // as in kube-scheduler, the first one that fails is the reason
			if missing = v == nil; missing {
				break
			}
			if !reachable(v, n.Object) {
				reasons = append(reasons, "node(s) didn't match PersistentVolume's node affinity")
				break
			}
		}
		if _, reason := c.choose(open, n); reason != "" {
			reasons = append(reasons, reason)
		}
		if missing {
			reasons = append(reasons, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
		}
		if len(reasons) == 0 {
			return nil
		}
		return &Refusal{Plugin: p.Name(), Reasons: reasons, Final: true}
	}}
	if len(open) > 0 {
		rule.Score = func(n *Node) int64 {
			choices, reason := c.choose(open, n)
			if reason != "" {
				return 0
			}
			return p.score(choices)
		}
	}
	return rule, nil
}

// A claimName is a claim of a pod, and the volume of the pod that has it.
type claimName struct {
	claim  string
	volume *corev1.Volume
}

func claimsOf(p *corev1.Pod) (names []claimName) {
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, claimName{v.PersistentVolumeClaim.ClaimName, v})
		case v.Ephemeral != nil:
			names = append(names, claimName{ephemeral.VolumeClaimName(p, v), v})
		}
	}
	return names
}

// unusable returns why a pod cannot use a claim, "" if it can.
func unusable(p *corev1.Pod, n claimName, claim *corev1.PersistentVolumeClaim) string {
	switch {
	case claim == nil && n.volume.Ephemeral != nil:
		return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", n.claim)
	case claim == nil:
		return missingClaim(n.claim)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", claim.Name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", claim.Name)
	}
	if n.volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(p, claim); err != nil {
			return err.Error()
		}
	}
	return ""
}

// isBound reports whether the controller of volumes has completed the binding of a claim.
func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return metav1.HasAnnotation(claim.ObjectMeta, "pv.kubernetes.io/bind-completed")
}

// waits reports whether a claim is bound when a pod that uses it has a node.
func (c *Cluster) waits(claim *corev1.PersistentVolumeClaim) bool {
	class := c.storage.classes[className(claim)]
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

// reachable reports whether a node can have a volume. As in kube-scheduler, only labels of the node
// count, and a term that cannot be parsed matches nothing.
func reachable(v *corev1.PersistentVolume, n *corev1.Node) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	ok, err := nodeaffinity.NewLazyErrorNodeSelector(v.Spec.NodeAffinity.Required).Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels}})
	return err == nil && ok
}

// A Choice is the decision about a claim of a pod that has got a node: an existing volume or, if
// nil, a volume to be provisioned.
type Choice struct {
	Claim    *corev1.PersistentVolumeClaim
	Volume   *corev1.PersistentVolume
	capacity *storagev1.CSIStorageCapacity // for a volume to be provisioned; nil if it does not count
}

// Choices returns the choices to make so that a pod has its volumes on a node. It is empty if it
// has them.
func (c *Cluster) Choices(p *corev1.Pod, node string) []Choice {
	var open []*corev1.PersistentVolumeClaim
	for _, n := range claimsOf(p) {
		if claim := c.storage.claims[p.Namespace+"/"+n.claim]; claim != nil && !isBound(claim) {
			open = append(open, claim)
		}
	}
	n := c.nodes[node]
	if len(open) == 0 || n == nil || n.Object == nil {
		return nil
	}
	choices, _ := c.choose(open, n)
	return choices
}

// choose finds a volume for each claim, the smallest that is large enough, or leaves it to the
// provisioner of its class. Otherwise it returns why a claim has no volume on the node.
func (c *Cluster) choose(open []*corev1.PersistentVolumeClaim, n *Node) (choices []Choice, reason string) {
	const unavailable, full = "node(s) didn't find available persistent volumes to bind", "node(s) did not have enough free storage"
	taken := map[string]bool{}
	for _, claim := range open {
		if selected, has := claim.Annotations[SelectedNode]; has {
			if selected != n.Name {
				return nil, unavailable
			}
		} else if v := c.match(claim, n, taken); v != nil {
			taken[v.Name] = true
			choices = append(choices, Choice{Claim: claim, Volume: v})
			continue
		}
		class := c.storage.classes[className(claim)]
		if !provisions(class, n) {
			return nil, unavailable
		}
		capacity, ok := c.storage.room(claim, class, n.Object)
		if !ok {
			return nil, full
		}
		choices = append(choices, Choice{Claim: claim, capacity: capacity})
	}
	return choices, ""
}

// match returns the smallest volume that a claim can have on a node, nil if there is none.
func (c *Cluster) match(claim *corev1.PersistentVolumeClaim, n *Node, taken map[string]bool) (best *corev1.PersistentVolume) {
	want := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	if err != nil {
		return nil
	}
	if claim.Spec.Selector == nil {
		selector = labels.Everything()
	}
	for _, v := range c.storage.volumes {
		ref := v.Spec.ClaimRef
		mine := ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
		size := v.Spec.Capacity[corev1.ResourceStorage]
		switch {
		case taken[v.Name], ref != nil && !mine, v.DeletionTimestamp != nil, ref == nil && v.Status.Phase != corev1.VolumeAvailable,
			v.Spec.StorageClassName != className(claim), size.Cmp(want) < 0, modeOf(v.Spec.VolumeMode) != modeOf(claim.Spec.VolumeMode),
			!selector.Matches(labels.Set(v.Labels)), !reachable(v, n.Object):
			continue
		}
		if slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(v.Spec.AccessModes, m) }) {
			continue
		}
		if mine {
			return v
		}
		if best == nil {
			best = v
			continue
		}
		smallest := best.Spec.Capacity[corev1.ResourceStorage]
		if order := size.Cmp(smallest); order < 0 || order == 0 && strings.Compare(v.Name, best.Name) < 0 {
			best = v
		}
	}
	return best
}

func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

// provisions reports whether a class makes volumes for a node.
func provisions(class *storagev1.StorageClass, n *Node) bool {
	if class == nil || class.Provisioner == "" || class.Provisioner == noProvisioner {
		return false
	}
	if len(class.AllowedTopologies) == 0 {
		return true
	}
	return slices.ContainsFunc(class.AllowedTopologies, func(t corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			return !slices.Contains(e.Values, n.Object.Labels[e.Key])
		})
	})
}
