package noderestriction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
)

const leaseNamespace = corev1.NamespaceNodeLease

func (w *write) ownNode() error {
	if w.Name != w.node {
		return fmt.Errorf("node %q is not allowed to modify node %q", w.node, w.Name)
	}
	if w.Object == nil {
		return nil
	}
	obj, err := admission.Decode[corev1.Node](w.Object)
	if err != nil {
		return err
	}
	switch w.Operation {
	case resource.OperationCreate:
		if obj.Spec.ConfigSource != nil {
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", w.node) // "pods" as in Kubernetes
		}
		if reserved := reservedLabels(obj.Labels, nil); len(reserved) > 0 {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", w.node, strings.Join(reserved, ", "))
		}
	case resource.OperationUpdate:
		old, err := admission.Decode[corev1.Node](w.Old)
		if err != nil {
			return err
		}
		return w.changeNode(old, obj)
	}
	return nil
}

func (w *write) changeNode(old, obj *corev1.Node) error {
	equal := apiequality.Semantic.DeepEqual
	switch {
	case obj.Spec.ConfigSource != nil && !equal(obj.Spec.ConfigSource, old.Spec.ConfigSource):
		return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", w.node)
	case !equal(obj.Spec.Taints, old.Spec.Taints):
		return fmt.Errorf("node %q is not allowed to modify taints", w.node)
	case !equal(obj.OwnerReferences, old.OwnerReferences):
		return fmt.Errorf("node %q is not allowed to modify ownerReferences", w.node)
	}
	if reserved := reservedLabels(obj.Labels, old.Labels); len(reserved) > 0 {
		return fmt.Errorf("is not allowed to modify labels: %s", strings.Join(reserved, ", "))
	}
	return nil
}

// reservedLabels returns the keys of labels that differ and that nodes must not set, sorted.
func reservedLabels(a, b map[string]string) []string {
	var reserved []string
	for _, labels := range [...]map[string]string{a, b} {
		for key := range maps.Keys(labels) {
			left, inA := a[key]
			right, inB := b[key]
			if (inA != inB || left != right) && reservedLabel(key) {
				reserved = append(reserved, key)
			}
		}
	}
	slices.Sort(reserved)
	return slices.Compact(reserved)
}

// reservedLabel reports whether nodes must not set a label: one of node-restriction.kubernetes.io,
// or of Kubernetes that is not one of kubelets.
func reservedLabel(key string) bool {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	within := func(domains ...string) bool {
		return slices.ContainsFunc(domains, func(domain string) bool {
			return namespace == domain || strings.HasSuffix(namespace, "."+domain)
		})
	}
	if within(corev1.LabelNamespaceNodeRestriction) {
		return true
	}
	if !within("kubernetes.io", "k8s.io") {
		return false
	}
	switch key {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
		corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return false
	}
	return !within(corev1.LabelNamespaceSuffixKubelet, corev1.LabelNamespaceSuffixNode)
}

func (w *write) claim() error {
	switch {
	case w.Request.Subresource != "status":
		return errors.New("may only update PVC status")
	case w.Operation != resource.OperationUpdate:
		return w.unexpected()
	}
	old, err := admission.Decode[corev1.PersistentVolumeClaim](w.Old)
	if err != nil {
		return err
	}
	claim, err := admission.Decode[corev1.PersistentVolumeClaim](w.Object)
	if err != nil {
		return err
	}
	for _, c := range []*corev1.PersistentVolumeClaim{old, claim} {
		c.ResourceVersion, c.ManagedFields = "", nil
		c.Status.Capacity, c.Status.Conditions = nil, nil
		c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
	}
	if !apiequality.Semantic.DeepEqual(old, claim) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions: %v", w.node, diff.Diff(old, claim))
	}
	return nil
}
