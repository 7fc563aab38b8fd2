package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What CreateOrUpdate and CreateOrPatch do about an object and its status.
func TestCreateOr(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, client.Options{})
	broken := errors.New("broken")
	type change = func(*appsv1.Deployment)
	paused := func(paused bool) change { return func(d *appsv1.Deployment) { d.Spec.Paused = paused } }
	status := func(n int32) change { return func(d *appsv1.Deployment) { d.Status.Replicas = n } }
	both := func(d *appsv1.Deployment) { d.Spec.Paused, d.Status.Replicas = false, 3 }
	for i, test := range []struct {
		do     func(context.Context, client.Client, client.Object, client.MutateFn) (client.OperationResult, error)
		change change
		err    error
		want   client.OperationResult
	}{
		{client.CreateOrUpdate, paused(false), broken, client.OperationResultNone},
		{client.CreateOrUpdate, paused(false), nil, client.OperationResultCreated},
		{client.CreateOrUpdate, paused(false), nil, client.OperationResultNone},
		{client.CreateOrUpdate, paused(true), nil, client.OperationResultUpdated},
		{client.CreateOrPatch, paused(true), nil, client.OperationResultNone},
		{client.CreateOrPatch, paused(false), nil, client.OperationResultUpdated},
		{client.CreateOrPatch, status(1), nil, client.OperationResultUpdatedStatusOnly},
		{client.CreateOrPatch, paused(true), broken, client.OperationResultNone},
		{client.CreateOrPatch, paused(true), nil, client.OperationResultUpdated},
		{client.CreateOrPatch, both, nil, client.OperationResultUpdatedStatus},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}
		got, err := test.do(ctx, c, d, func() error {
			if d.UID == "" {
				*d = *deployment("d", 1)
			}
			test.change(d)
			return test.err
		})
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("step %d: %s, %v; want %s, %v", i, got, err, test.want, test.err)
		}
	}
	d := deployment("d", 1)
	if err := c.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil || d.Spec.Paused || d.Status.Replicas != 3 {
		t.Errorf("in the end: %+v, %v", d, err)
	}
	if result, err := client.CreateOrUpdate(ctx, c, d, func() error { d.Name = "e"; return nil }); err == nil {
		t.Errorf("renamed: %s", result)
	}
	if result, err := client.CreateOrPatch(ctx, c, nil, nil); err == nil {
		t.Errorf("nil: %s", result)
	}
}
