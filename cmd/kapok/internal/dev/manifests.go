package dev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// read reads the manifests that kustomize has built. Webhooks are called at a port of this machine.
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
			isOperator, err := m.readDeployment(u)
			if err != nil {
				return nil, err
			}
			if isOperator {
				continue
			}
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

// readDeployment reads what the operator gets of its Deployment, which is the first one: its
// account, and the values of environment variables that do not come from other objects.
func (m *manifests) readDeployment(u *unstructured.Unstructured) (isOperator bool, err error) {
	if m.namespace != "" {
		return false, nil
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, deployment); err != nil {
		return false, fmt.Errorf("deployment %s: %w", u.GetName(), err)
	}
	pod := deployment.Spec.Template.Spec
	m.namespace, m.account = u.GetNamespace(), cmp.Or(pod.ServiceAccountName, "default")
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
	return true, nil
}

// A set is what was applied of one source: the manifests of the project, or its samples. The keys
// are kinds and names.
type set map[string]*unstructured.Unstructured

// keyOf returns the key of an object, after setting its namespace if it lacks one.
func (d *dev) keyOf(u *unstructured.Unstructured) string {
	if u.GetNamespace() == "" {
		if namespaced, err := d.client.IsObjectNamespaced(u); err == nil && namespaced {
			u.SetNamespace("default")
		}
	}
	return u.GroupVersionKind().String() + " " + u.GetNamespace() + "/" + u.GetName()
}

// apply applies objects, and waits until definitions are served. Those of the set that were applied
// as they are stay alone, unless all is wanted. It goes on after an error.
func (d *dev) apply(ctx context.Context, was set, objects []*unstructured.Unstructured, all bool) error {
	var errs []error
	for _, u := range objects {
		key := d.keyOf(u)
		if last := was[key]; !all && last != nil && equality.Semantic.DeepEqual(last.Object, u.Object) {
			continue
		}
		answer := u.DeepCopy() // Apply writes the answer into it
		err := d.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), owner, client.ForceOwnership)
		switch {
		case meta.IsNoMatchError(err):
			if d.versions[key] != noKind && !forClusters[u.GroupVersionKind().Group] {
				d.lines.printf("apply", "%s is left out: the server does not have this kind", describeObject(u))
			}
			d.versions[key] = noKind
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err))
			continue
		}
		was[key] = u
		if d.versions[key] != answer.GetResourceVersion() {
			d.versions[key] = answer.GetResourceVersion()
			d.lines.printf("apply", "%s", describeObject(u))
		}
		if u.GetKind() == "CustomResourceDefinition" {
			if err := d.awaitServed(ctx, u); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// noKind stands in place of the resourceVersion of an object whose kind the server does not have.
const noKind = "no kind"

// deleteOthers deletes the objects of a set that are not wanted any more.
func (d *dev) deleteOthers(ctx context.Context, was set, wanted []*unstructured.Unstructured) error {
	keys := map[string]bool{}
	for _, u := range wanted {
		keys[d.keyOf(u)] = true
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if keys[key] {
			continue
		}
		u := was[key]
		switch err := d.client.Delete(ctx, u.DeepCopy()); {
		case err == nil:
			d.lines.printf("delete", "%s", describeObject(u))
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
			errs = append(errs, fmt.Errorf("delete %s: %w", describeObject(u), err))
			continue
		}
		delete(was, key)
	}
	return errors.Join(errs...)
}

// forClusters are groups with kinds that scaffolds have for clusters: certificates and metrics.
var forClusters = map[string]bool{"cert-manager.io": true, "monitoring.coreos.com": true}

func describeObject(u *unstructured.Unstructured) string {
	return u.GetKind() + " " + strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
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
