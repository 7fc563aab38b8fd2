package noderestriction

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authz/node"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	pods  = schema.GroupResource{Resource: "pods"}
	nodes = schema.GroupResource{Resource: "nodes"}
)

func (w *write) pod() error {
	switch w.Request.Subresource {
	case "":
		switch w.Operation {
		case resource.OperationCreate:
			return w.createPod()
		case resource.OperationDelete:
			return w.deletePod()
		}
		return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", w.Operation, w.node)
	case "status":
		if w.Operation == resource.OperationUpdate {
			return w.podStatus()
		}
		return w.unexpected()
	case "eviction":
		if w.Operation == resource.OperationCreate {
			return w.evict()
		}
		return fmt.Errorf("unexpected operation %s", w.Operation)
	}
	return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", w.Request.Subresource)
}

func (w *write) createPod() error {
	pod, err := admission.Decode[corev1.Pod](w.Object)
	if err != nil {
		return err
	}
	if _, mirrors := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirrors {
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, w.node)
	}
	if pod.Spec.NodeName != w.node {
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", w.node)
	}
	if err := w.owned(pod); err != nil {
		return err
	}
	resource, err := uses(&pod.Spec)
	switch {
	case err != nil:
		return fmt.Errorf("error checking mirror pod for API references: %w", err)
	case resource != "":
		return fmt.Errorf("node %q can not create pods that reference %s", w.node, resource)
	}
	return nil
}

// owned returns an error unless the node owns a pod.
func (w *write) owned(pod *corev1.Pod) error {
	switch {
	case len(pod.OwnerReferences) > 1:
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", w.node)
	case len(pod.OwnerReferences) == 0:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", w.node)
	}
	owner := &pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != w.node:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", w.node)
	case owner.Controller == nil || !*owner.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", w.node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", w.node)
	}
	own, err := find[corev1.Node](w, nodes, "node", "", w.node)
	if err != nil {
		return asFailure(err)
	}
	if owner.UID != own.UID {
		return fmt.Errorf("node %s UID mismatch: expected %s got %s", w.node, owner.UID, own.UID)
	}
	return nil
}

// deletePod reads the stored pod: in a collection, the request has no name.
func (w *write) deletePod() error {
	if bound(w.Old) != w.node {
		return fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", w.node)
	}
	return nil
}

// bound returns the node of a pod.
func bound(pod resource.Tree) string {
	spec, _ := pod["spec"].(resource.Tree)
	name, _ := spec["nodeName"].(string)
	return name
}

func (w *write) podStatus() error {
	if bound(w.Old) != w.node {
		return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", w.node)
	}
	old, err := admission.Decode[corev1.Pod](w.Old)
	if err != nil {
		return err
	}
	pod, err := admission.Decode[corev1.Pod](w.Object)
	if err != nil {
		return err
	}
	a, b := &old.Status, &pod.Status
	switch {
	case !labels.Equals(old.Labels, pod.Labels):
		return fmt.Errorf("node %q cannot update labels through pod status", w.node)
	case !apiequality.Semantic.DeepEqual(a.ResourceClaimStatuses, b.ResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update resource claim statues", w.node) // as spelled in Kubernetes
	case !apiequality.Semantic.DeepEqual(a.ExtendedResourceClaimStatus, b.ExtendedResourceClaimStatus):
		return fmt.Errorf("node %q cannot update extended resource claim status", w.node)
	case !apiequality.Semantic.DeepEqual(a.NodeAllocatableResourceClaimStatuses, b.NodeAllocatableResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update node allocatable resource claim statuses", w.node)
	}
	return nil
}

func (w *write) evict() error {
	name := w.Name
	if name == "" {
		if name = w.named(); name == "" {
			return errors.New("could not determine pod from request data")
		}
	}
	pod, err := find[corev1.Pod](w, pods, "pod", w.Request.Namespace, name)
	if err != nil {
		return asFailure(err)
	}
	if pod.Spec.NodeName != w.node {
		return fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", w.node)
	}
	return nil
}

// uses returns a resource that a pod refers to, as error messages name it; "" if it refers to none.
func uses(spec *corev1.PodSpec) (string, error) {
	notEmpty := func(name string) bool { return name != "" }
	switch {
	case spec.ServiceAccountName != "":
		return "serviceaccounts", nil
	case slices.ContainsFunc(slices.Collect(node.PodSecrets(spec)), notEmpty):
		return "secrets", nil
	case slices.ContainsFunc(slices.Collect(node.PodConfigMaps(spec)), notEmpty):
		return "configmaps", nil
	case len(spec.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range spec.Volumes {
		if resource, err := volumeUses(&spec.Volumes[i]); resource != "" || err != nil {
			return resource, err
		}
	}
	return "", nil
}

func volumeUses(v *corev1.Volume) (string, error) {
	switch s := &v.VolumeSource; {
	case s.AWSElasticBlockStore != nil, s.AzureDisk != nil, s.CephFS != nil, s.Cinder != nil, s.DownwardAPI != nil,
		s.EmptyDir != nil, s.FC != nil, s.FlexVolume != nil, s.Flocker != nil, s.GCEPersistentDisk != nil, s.GitRepo != nil,
		s.HostPath != nil, s.Image != nil, s.ISCSI != nil, s.NFS != nil, s.PhotonPersistentDisk != nil,
		s.PortworxVolume != nil, s.Quobyte != nil, s.RBD != nil, s.ScaleIO != nil, s.StorageOS != nil, s.VsphereVolume != nil:
		return "", nil
	case s.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case s.Secret != nil:
		return "secrets (via secret volumes)", nil
	case s.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case s.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case s.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case s.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case s.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case s.Projected != nil:
		return projectionUses(v)
	}
	return "", fmt.Errorf("unknown volume type for volume  %q", v.Name)
}

func projectionUses(v *corev1.Volume) (string, error) {
	for _, p := range v.Projected.Sources {
		switch {
		case p.ConfigMap != nil:
			return "configmaps (via projected volumes)", nil
		case p.Secret != nil:
			return "secrets (via projected volumes)", nil
		case p.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)", nil
		case p.ClusterTrustBundle != nil:
			return "clustertrustbundles", nil
		case p.PodCertificate != nil:
			return "podcertificates", nil
		case p.DownwardAPI != nil:
			continue
		}
		return "", fmt.Errorf("unknown source for projected volume %q", v.Name)
	}
	return "", nil
}
