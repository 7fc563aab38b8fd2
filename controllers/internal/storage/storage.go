// Package storage contains code that the controllers of volumes share: names, classes, and the pods
// of a claim.
package storage

import (
	"context"
	"errors"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of claims and volumes.
const (
	// BindCompleted is on a claim that was bound once.
	BindCompleted = "pv.kubernetes.io/bind-completed"
	// BoundByController is on a claim or volume whose partner the controller has chosen.
	BoundByController = "pv.kubernetes.io/bound-by-controller"
	// SelectedNode is the node that the scheduler has chosen for the pod of a claim.
	SelectedNode = "volume.kubernetes.io/selected-node"
	// ProvisionedBy is the provisioner of a volume.
	ProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// MigratedTo is the CSI driver that has replaced the provisioner.
	MigratedTo = "pv.kubernetes.io/migrated-to"
	// Provisioner is on a claim the name of the provisioner that is to make a volume.
	Provisioner = "volume.kubernetes.io/storage-provisioner"
	// BetaProvisioner is the older name of Provisioner.
	BetaProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	// PreResizeCapacity is on a volume the capacity before its file system grows.
	PreResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"
	// Resizer is on a claim the name of the driver that is to expand its volume.
	Resizer = "volume.kubernetes.io/storage-resizer"
	// DefaultClass is "true" on a default StorageClass.
	DefaultClass = "storageclass.kubernetes.io/is-default-class"
	// BetaDefaultClass is the older name of DefaultClass.
	BetaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// HasClass reports whether the class of a claim is set, possibly to "".
func HasClass(c *corev1.PersistentVolumeClaim) bool {
	return c.Spec.StorageClassName != nil || metav1.HasAnnotation(c.ObjectMeta, corev1.BetaStorageClassAnnotation)
}

// ClassOf returns the class that a claim wants, or "".
func ClassOf(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}

// ClassOfVolume returns the class of a volume, or "".
func ClassOfVolume(v *corev1.PersistentVolume) string {
	if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return v.Spec.StorageClassName
}

// migrated are the CSI drivers of provisioners that Kubernetes has replaced.
var migrated = map[string]string{
	"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":      "disk.csi.azure.com",
	"kubernetes.io/azure-file":      "file.csi.azure.com",
	"kubernetes.io/cinder":          "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
	"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
}

// Driver returns the CSI driver that has replaced a provisioner, or "".
func Driver(provisioner string) string { return migrated[provisioner] }

// PluginOf returns the provisioner that CSI drivers have replaced and that the source of a volume
// belongs to, or "".
func PluginOf(v *corev1.PersistentVolume) string {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.AWSElasticBlockStore != nil:
		return "kubernetes.io/aws-ebs"
	case s.AzureDisk != nil:
		return "kubernetes.io/azure-disk"
	case s.AzureFile != nil:
		return "kubernetes.io/azure-file"
	case s.Cinder != nil:
		return "kubernetes.io/cinder"
	case s.GCEPersistentDisk != nil:
		return "kubernetes.io/gce-pd"
	case s.PortworxVolume != nil:
		return "kubernetes.io/portworx-volume"
	case s.VsphereVolume != nil:
		return "kubernetes.io/vsphere-volume"
	}
	return ""
}

// Ended reports whether a pod has ended, or is deleted and its containers do not run.
func Ended(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if p.DeletionTimestamp == nil {
		return false
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated == nil && s.State.Waiting == nil {
			return false
		}
	}
	return true
}

// Claims returns the names of the claims of a pod, with those of its ephemeral volumes.
func Claims(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}

const byClaim = "kapok.dev/claims"

// IndexPods lets Pods find the pods of a claim.
func IndexPods(m manager.Manager) error {
	return Index(m, &corev1.Pod{}, byClaim, Claims)
}

// Pods lists the pods that have a claim among their volumes. They belong to the cache.
func Pods(ctx context.Context, r client.Reader, c *corev1.PersistentVolumeClaim) (all []*corev1.Pod, err error) {
	var list corev1.PodList
	err = r.List(ctx, &list, client.InNamespace(c.Namespace), client.MatchingFields{byClaim: c.Name}, client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}

// Index adds an index to the cache of a manager. It may be there already.
func Index[T client.Object](m manager.Manager, o T, name string, values func(T) []string) error {
	err := m.GetFieldIndexer().IndexField(context.Background(), o, name, func(o client.Object) []string { return values(o.(T)) })
	if errors.Is(err, cache.ErrIndexExists) {
		return nil
	}
	return err
}
