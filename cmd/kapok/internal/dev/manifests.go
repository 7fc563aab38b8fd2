package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// owner is the manager of the fields that are applied.
const owner = client.FieldOwner("kapok-dev")

// manifests are the objects of a project that the server gets, and what its Deployment says of the
// operator.
type manifests struct {
	objects   []*unstructured.Unstructured
	namespace string
	account   string // of the operator; "" if there is none
	env       []string
}

// read reads the manifests that kapok build printed. Webhooks are called at a port of this machine.
func (d *dev) read(text []byte) (*manifests, error) {
	m := &manifests{}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := documents.Decode(&u.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("decode the manifests: %w", err)
		}
		if len(u.Object) == 0 {
			continue
		}
		switch u.GetKind() {
		case "Deployment":
			if err := m.readDeployment(u); err != nil {
				return nil, err
			}
			continue
		case "Certificate", "Issuer", "ServiceMonitor", "NetworkPolicy", "Service":
			continue // for the operator in a cluster
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			list, _, err := unstructured.NestedSlice(u.Object, "webhooks")
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
			}
			for _, webhook := range list {
				if w, ok := webhook.(map[string]any); ok {
					d.callHere(w["clientConfig"])
				}
			}
			u.Object["webhooks"] = list
		case "CustomResourceDefinition":
			if config, ok, err := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook", "clientConfig"); ok && err == nil {
				d.callHere(config)
				if err := unstructured.SetNestedMap(u.Object, config, "spec", "conversion", "webhook", "clientConfig"); err != nil {
					return nil, err
				}
			}
		}
		m.objects = append(m.objects, u)
	}
	slices.SortStableFunc(m.objects, func(a, b *unstructured.Unstructured) int { return order(a) - order(b) })
	return m, nil
}

// order puts first what others need.
func order(u *unstructured.Unstructured) int {
	switch u.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return 3
	}
	return 2
}

// callHere makes the configuration of a webhook of a service one of the operator's port.
func (d *dev) callHere(config any) {
	c, _ := config.(map[string]any)
	service, ok := c["service"].(map[string]any)
	if !ok {
		return
	}
	at, _ := service["path"].(string)
	delete(c, "service")
	c["url"] = fmt.Sprintf("https://127.0.0.1:%d%s", d.webhookPort, path.Join("/", at))
	c["caBundle"] = d.webhookCA
}

// readDeployment reads what the operator gets of the Deployment of the manager: its account, and the values of
// environment variables that do not come from other objects.
func (m *manifests) readDeployment(u *unstructured.Unstructured) error {
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, deployment); err != nil {
		return fmt.Errorf("deployment %s: %w", u.GetName(), err)
	}
	if m.namespace != "" {
		return nil // the first one is the operator's
	}
	pod := deployment.Spec.Template.Spec
	m.namespace, m.account = u.GetNamespace(), firstOf(pod.ServiceAccountName, "default")
	for _, container := range pod.Containers {
		for _, v := range container.Env {
			value := v.Value
			if v.ValueFrom != nil {
				if v.ValueFrom.FieldRef == nil {
					continue
				}
				switch v.ValueFrom.FieldRef.FieldPath {
				case "metadata.namespace":
					value = m.namespace
				case "metadata.name":
					value = u.GetName()
				default:
					continue
				}
			}
			m.env = append(m.env, v.Name+"="+value)
		}
	}
	return nil
}

// apply applies objects that differ from what was applied last, and waits until definitions are served.
// It goes on after an error.
func (d *dev) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	var errs []error
	for _, u := range objects {
		key := u.GetObjectKind().GroupVersionKind().GroupKind().String() + " " + u.GetNamespace() + "/" + u.GetName()
		text, err := u.MarshalJSON()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if d.applied[key] == string(text) {
			continue
		}
		if u.GetNamespace() == "" {
			if namespaced, err := d.client.IsObjectNamespaced(u); err == nil && namespaced {
				u.SetNamespace("default")
			}
		}
		// Apply writes the answer into the object.
		if err := d.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u.DeepCopy()), owner, client.ForceOwnership); err != nil {
			errs = append(errs, fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err))
			continue
		}
		d.applied[key] = string(text)
		d.lines.printf("apply", "%s %s", u.GetKind(), strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/"))
		if u.GetKind() == "CustomResourceDefinition" {
			if err := d.awaitServed(ctx, u); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// awaitServed waits until the server serves the kind of a definition.
func (d *dev) awaitServed(ctx context.Context, definition *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	u := definition.DeepCopy()
	for {
		if err := d.client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return fmt.Errorf("read %s: %w", u.GetName(), err)
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, condition := range conditions {
			c, ok := condition.(map[string]any)
			if ok && c["type"] == "Established" && c["status"] == "True" {
				return nil
			}
			if ok && c["type"] == "NamesAccepted" && c["status"] == "False" {
				return fmt.Errorf("the server does not accept %s: %v", u.GetName(), c["message"])
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not serve %s: %w", u.GetName(), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
