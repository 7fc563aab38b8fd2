package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/services"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PublishKubernetes gives the service kubernetes a node port, unless it does not exist, or has
// another type than ClusterIP: that it has been published, or that a user has changed it. In
// Kubernetes, the service gets its node port only when it is created.
func PublishKubernetes(ctx context.Context, store *resource.Store, port int) error {
	d := store.Registry().Load().Resource(services.ServiceResource)
	if d == nil {
		return errors.New("services are not served")
	}
	o, _ := store.State().Get(d.Key(metav1.NamespaceDefault, services.KubernetesName))
	if o == nil {
		return nil
	}
	service, err := o.Tree()
	if err != nil {
		return err
	}
	if kind.Text(service, "spec", "type") != string(corev1.ServiceTypeClusterIP) {
		return nil
	}
	r := &resource.Request{
		Definition: d, Version: d.Storage, Namespace: metav1.NamespaceDefault, Name: services.KubernetesName,
		Manager: "kapok", FieldValidation: metav1.FieldValidationStrict, Warn: func(string) {},
	}
	patch := fmt.Appendf(nil, `{"spec": {"type": "NodePort", "ports": [{"port": 443, "nodePort": %d}]}}`, port)
	if _, err := store.Patch(ctx, r, resource.Patch{Type: types.StrategicMergePatchType, Data: patch}); err != nil {
		return fmt.Errorf("give the service %s the node port %d: %w", services.KubernetesName, port, err)
	}
	return nil
}
