package webhook

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// A writer implements as much of a client of unstructured objects as Certificates need.
type writer struct {
	client.Client // nil: other methods panic
	dynamic       dynamic.Interface
	mu            sync.Mutex
	before        func(verb, kind string) error // called before each request; its error is that of the request
	writes        []string
}

func newWriter(t *testing.T, config *rest.Config) *writer {
	t.Helper()
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{dynamic: d}
}

func (w *writer) of(verb string, obj client.Object, namespace string) (dynamic.ResourceInterface, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	w.mu.Lock()
	defer w.mu.Unlock()
	if verb != "get" {
		w.writes = append(w.writes, verb+" "+gvk.Kind)
	}
	if w.before != nil {
		if err := w.before(verb, gvk.Kind); err != nil {
			return nil, err
		}
	}
	return w.dynamic.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")).Namespace(namespace), nil
}

func into(obj client.Object, got *unstructured.Unstructured, err error) error {
	if err == nil {
		obj.(*unstructured.Unstructured).Object = got.Object
	}
	return err
}

func (w *writer) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r, err := w.of("get", obj, key.Namespace)
	if err != nil {
		return err
	}
	got, err := r.Get(ctx, key.Name, metav1.GetOptions{})
	return into(obj, got, err)
}

func (w *writer) Create(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
	r, err := w.of("create", obj, obj.GetNamespace())
	if err != nil {
		return err
	}
	got, err := r.Create(ctx, obj.(*unstructured.Unstructured), metav1.CreateOptions{})
	return into(obj, got, err)
}

func (w *writer) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	r, err := w.of("update", obj, obj.GetNamespace())
	if err != nil {
		return err
	}
	got, err := r.Update(ctx, obj.(*unstructured.Unstructured), metav1.UpdateOptions{})
	return into(obj, got, err)
}

func (w *writer) setBefore(before func(verb, kind string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = before
}

func (w *writer) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.writes = nil }()
	return slices.Sorted(slices.Values(w.writes))
}
