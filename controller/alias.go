package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"
)

// A Manager runs controllers: what SetupWithManager gets.
type Manager = manager.Manager

// SetControllerReference makes owner the owner of an object that controls it: see client.SetControllerReference.
func SetControllerReference(owner, controlled metav1.Object, scheme *runtime.Scheme, opts ...client.OwnerReferenceOption) error {
	return client.SetControllerReference(owner, controlled, scheme, opts...)
}

// CreateOrUpdate writes an object as mutate makes it: see client.CreateOrUpdate.
func CreateOrUpdate(ctx context.Context, c client.Client, obj client.Object, mutate client.MutateFn) (client.OperationResult, error) {
	return client.CreateOrUpdate(ctx, c, obj, mutate)
}
