package client_test

import (
	"testing"

	"github.com/kapok-dev/kapok/client"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
)

func TestSubResourceOptions(t *testing.T) {
	scale, other := &autoscalingv1.Scale{}, &autoscalingv1.Scale{}
	given := []client.WriteOption{client.FieldOwner("me"), client.DryRunAll}
	for name, opts := range map[string][]client.WriteOption{
		"update":          {&client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{FieldManager: "me", DryRun: []string{"All"}}, SubResourceBody: scale}},
		"patch":           {&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: "me", DryRun: []string{"All"}}, SubResourceBody: scale}},
		"applied update":  {(&client.SubResourceUpdateOptions{SubResourceBody: scale}).ApplyOptions(given)},
		"applied patch":   {(&client.SubResourcePatchOptions{SubResourceBody: other}).ApplyOptions(append(given, client.WithSubResourceBody(scale)))},
		"create":          {&client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{FieldManager: "me", DryRun: []string{"All"}}}, client.WithSubResourceBody(scale)},
		"apply":           {&client.SubResourceApplyOptions{ApplyOptions: client.ApplyOptions{FieldManager: "me", DryRun: []string{"All"}}}, client.WithSubResourceBody(scale)},
		"one by one":      append(given, client.WithSubResourceBody(scale)),
		"body is kept by": {client.WithSubResourceBody(scale), &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{FieldManager: "me", DryRun: []string{"All"}}}},
	} {
		var got client.WriteOptions
		got.ApplyOptions(opts)
		if got.FieldManager != "me" || len(got.DryRun) != 1 || got.SubResourceBody != client.Object(scale) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
