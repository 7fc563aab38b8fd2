package controller

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Manager runs controllers: the parameter of SetupWithManager.
type Manager = manager.Manager

// SetControllerReference makes owner the controller of an object: see
// client.SetControllerReference.
func SetControllerReference(owner, controlled metav1.Object, scheme *runtime.Scheme, opts ...client.OwnerReferenceOption) error {
	return client.SetControllerReference(owner, controlled, scheme, opts...)
}

// CreateOrUpdate creates obj, or updates it if mutate changes it: see client.CreateOrUpdate.
func CreateOrUpdate(ctx context.Context, c client.Client, obj client.Object, mutate client.MutateFn) (client.OperationResult, error) {
	return client.CreateOrUpdate(ctx, c, obj, mutate)
}
