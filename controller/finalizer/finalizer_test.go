package finalizer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/finalizer"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type finalizerFunc func(client.Object) (finalizer.Result, error)

func (f finalizerFunc) Finalize(_ context.Context, obj client.Object) (finalizer.Result, error) {
	return f(obj)
}

func TestFinalizersAreAddedCalledAndRemoved(t *testing.T) {
	fails := true
	all := finalizer.NewFinalizers()
	err := errors.Join(
		all.Register("example.com/a", finalizerFunc(func(client.Object) (finalizer.Result, error) { return finalizer.Result{}, nil })),
		all.Register("example.com/b", finalizerFunc(func(client.Object) (finalizer.Result, error) {
			if fails {
				return finalizer.Result{StatusUpdated: true}, errors.New("not yet")
			}
			return finalizer.Result{}, nil
		})))
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Register("example.com/a", finalizerFunc(nil)); err == nil || !strings.Contains(err.Error(), "already registered") {
		t.Error(err)
	}
	obj := &corev1.ConfigMap{}
	finalize := func(want finalizer.Result, left ...string) error {
		t.Helper()
		result, err := all.Finalize(t.Context(), obj)
		if result != want || !slices.Equal(obj.Finalizers, left) {
			t.Errorf("%+v, want %+v; %v, want %v", result, want, obj.Finalizers, left)
		}
		return err
	}
	if err := finalize(finalizer.Result{Updated: true}, "example.com/a", "example.com/b"); err != nil {
		t.Error(err)
	}
	if err := finalize(finalizer.Result{}, "example.com/a", "example.com/b"); err != nil {
		t.Error(err)
	}
	obj.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
	if err := finalize(finalizer.Result{Updated: true, StatusUpdated: true}, "example.com/b"); err == nil || err.Error() != `finalizer "example.com/b" failed: not yet` {
		t.Error(err)
	}
	fails = false
	if err := finalize(finalizer.Result{Updated: true}); err != nil {
		t.Error(err)
	}
	if err := finalize(finalizer.Result{}); err != nil {
		t.Error(err)
	}
}
