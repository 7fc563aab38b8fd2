package storage

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// allowExpansion lets a bound claim grow if its class allows it. In Kubernetes, the plugin
// PersistentVolumeClaimResize does this.
func allowExpansion(c *resource.Claims, obj, old resource.Tree) error {
	if obj == nil || old == nil {
		return nil
	}
	claim, before := kind.Decoded[corev1.PersistentVolumeClaim](obj), kind.Decoded[corev1.PersistentVolumeClaim](old)
	size, had := claim.Spec.Resources.Requests[corev1.ResourceStorage], before.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(had) <= 0 {
		return nil
	}
	refused := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, claim.Name, errors.New(why))
	}
	if before.Status.Phase != corev1.ClaimBound {
		return refused("Only bound persistent volume claims can be expanded")
	}
	name := classOf(claim)
	if name != "" && name == classOf(before) {
		can, err := canExpand(c, name)
		if can || err != nil {
			return err
		}
	}
	return refused("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
}

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

func canExpand(c *resource.Claims, class string) (bool, error) {
	key := object.Key{Resource: schema.GroupResource{Group: storagev1.GroupName, Resource: "storageclasses"}, Name: class}
	o, _ := c.State().Get(key)
	if o == nil {
		return false, nil
	}
	tree, err := o.Tree()
	if err != nil {
		return false, fmt.Errorf("read storage class %s: %w", class, err)
	}
	allowed, _ := tree["allowVolumeExpansion"].(bool)
	return allowed, nil
}
