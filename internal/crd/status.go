package crd

import (
	"context"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// writeStatus stores the status and the finalizers of a definition. It sends no spec: the status
// subresource ignores it, and it is most of the object.
func (c *Controller) writeStatus(ctx context.Context, m *manifest) (*object.Object, error) {
	meta := m.Metadata.DeepCopy()
	meta.ResourceVersion = m.object.Revision.String()
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return nil, err
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m.Status)
	if err != nil {
		return nil, err
	}
	data, err := object.AppendJSON(nil, resource.Tree{
		"apiVersion": c.kind.APIVersion(c.kind.Storage), "kind": c.kind.Kind, "metadata": metadata, "status": status,
	})
	if err != nil {
		return nil, err
	}
	result, err := c.store.Update(ctx, c.request("status", m.Metadata.Name), resource.Body{Data: data})
	return result.Object, err
}

// manager is the field manager of Kubernetes' own controllers of definitions.
const manager = "kube-apiserver"

func (c *Controller) request(subresource, name string) *resource.Request {
	return &resource.Request{
		Definition: c.kind, Version: c.kind.Storage, Name: name, Subresource: subresource,
		Manager: manager, FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
}
