package resource_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/housekeeping/bootstrap"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFormOfResult compares the protobuf of an object that has just been written, which is made
// from the tree that was written, with that of the stored bytes.
func TestFormOfResult(t *testing.T) {
	st, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	registry := resource.NewRegistry(kinds.Definitions()...)
	store := resource.NewStore(st, registry)
	if err := bootstrap.EnsureNamespaces(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	definition := func(group, plural string) *resource.Definition {
		for _, d := range registry.Load().All() {
			if d.Plural == plural && d.Group == group {
				return d
			}
		}
		t.Fatalf("no resource %s", plural)
		return nil
	}
	request := func(d *resource.Definition, v *resource.Version, name string) *resource.Request {
		return &resource.Request{
			Definition: d, Version: v, Namespace: "default", Name: name,
			Manager: "test", FieldValidation: metav1.FieldValidationWarn, Warn: func(string) {},
		}
	}
	deployments, pods, scalers := definition("apps", "deployments"), definition("", "pods"), definition("autoscaling", "horizontalpodautoscalers")
	pod := func(meta string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{%s},"spec":{"containers":[{"name":"c","image":"i",
"resources":{"requests":{"cpu":0.5,"memory":1073741824}}}],"priority":null,"terminationGracePeriodSeconds":30}}`, meta)
	}
	scaler := func(version string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"autoscaling/%s","kind":"HorizontalPodAutoscaler","metadata":{"name":"%[1]s"},
"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}}}`, version)
	}
	for _, c := range []struct {
		name    string
		request *resource.Request
		do      func(*resource.Request) (resource.Result, error)
	}{
		{"create", request(deployments, deployments.Storage, ""), func(r *resource.Request) (resource.Result, error) {
			return store.Create(t.Context(), r, resource.Body{Data: deploymentJSON("a", 0)})
		}},
		{"update", request(deployments, deployments.Storage, "a"), func(r *resource.Request) (resource.Result, error) {
			return store.Update(t.Context(), r, resource.Body{Data: deploymentJSON("a", 1)})
		}},
		{"update that changes nothing", request(deployments, deployments.Storage, "a"), func(r *resource.Request) (resource.Result, error) {
			return store.Update(t.Context(), r, resource.Body{Data: deploymentJSON("a", 1)})
		}},
		{"merge patch", request(deployments, deployments.Storage, "a"), func(r *resource.Request) (resource.Result, error) {
			return store.Patch(t.Context(), r, resource.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"annotations":{"n":"é\u0000"}}}`)})
		}},
		{"apply", request(deployments, deployments.Storage, "b"), func(r *resource.Request) (resource.Result, error) {
			return store.Patch(t.Context(), r, resource.Patch{Type: types.ApplyYAMLPatchType, Data: deploymentJSON("b", 0)})
		}},
		{"pod", request(pods, pods.Storage, ""), func(r *resource.Request) (resource.Result, error) {
			return store.Create(t.Context(), r, resource.Body{Data: pod(`"name":"p"`)})
		}},
		{"pod with a generated name", request(pods, pods.Storage, ""), func(r *resource.Request) (resource.Result, error) {
			return store.Create(t.Context(), r, resource.Body{Data: pod(`"generateName":"p-","labels":{}`)})
		}},
		{"storage version", request(scalers, scalers.Version(scalers.GroupVersion(scalers.Storage)), ""), func(r *resource.Request) (resource.Result, error) {
			return store.Create(t.Context(), r, resource.Body{Data: scaler(scalers.Storage.Name)})
		}},
		{"another version", request(scalers, other(scalers), ""), func(r *resource.Request) (resource.Result, error) {
			return store.Create(t.Context(), r, resource.Body{Data: scaler(other(scalers).Name)})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := c.do(c.request)
			if err != nil {
				t.Fatal(err)
			}
			d, v := c.request.Definition, c.request.Version
			stored, err := object.Parse(result.Object.Key, bytes.Clone(result.Object.Raw), result.Object.Schema, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			stored.Revision = result.Object.Revision
			for range 2 { // the second time, it is that of the first
				for _, media := range []object.Media{object.Protobuf, object.JSON, object.PartialJSON, object.PartialProtobuf} {
					got, err := result.Form(d, v, media)
					if err != nil {
						t.Fatal(err)
					}
					want, err := resource.Form(d, v, stored, media)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got.Bytes, want.Bytes) || got.Splice != want.Splice {
						t.Errorf("media %d: the result has the form\n%q, want\n%q", media, got.Bytes, want.Bytes)
					}
				}
			}
		})
	}
}

// TestFormOnce checks that FormOnce returns the bytes that Form returns, and that the object does
// not keep them.
func TestFormOnce(t *testing.T) {
	st, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	registry := resource.NewRegistry(kinds.Definitions()...)
	store := resource.NewStore(st, registry)
	if err := bootstrap.EnsureNamespaces(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for _, d := range registry.Load().All() {
		if d.Plural != "configmaps" {
			continue
		}
		r := &resource.Request{
			Definition: d, Version: d.Storage, Namespace: "default",
			Manager: "test", FieldValidation: metav1.FieldValidationWarn, Warn: func(string) {},
		}
		result, err := store.Create(t.Context(), r, resource.Body{Data: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`)})
		if err != nil {
			t.Fatal(err)
		}
		if !result.IsWritten(d.Storage) {
			t.Fatal("the object is not one that was written")
		}
		once, err := result.FormOnce(d, d.Storage)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := resource.Form(d, d.Storage, result.Object, object.Protobuf)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once.Bytes, kept.Bytes) || once.Splice != kept.Splice {
			t.Errorf("FormOnce returns\n%q, want\n%q", once.Bytes, kept.Bytes)
		}
		if &once.Bytes[0] == &kept.Bytes[0] {
			t.Error("the object keeps the bytes of FormOnce")
		}
		r.Name = "a"
		if read, err := store.Get(t.Context(), r, ""); err != nil || read.IsWritten(d.Storage) {
			t.Errorf("an object that was read counts as written: %v", err)
		}
		return
	}
	t.Fatal("no config maps")
}

// other returns a version of a resource that is not the stored one.
func other(d *resource.Definition) *resource.Version {
	for _, v := range d.Versions {
		if v != d.Storage {
			return v
		}
	}
	return nil
}

// BenchmarkCreatePod creates a pod with a generated name, and makes the protobuf of the response.
func BenchmarkCreatePod(b *testing.B) {
	st, err := state.Open(b.Context(), memory.New(), state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	registry := resource.NewRegistry(kinds.Definitions()...)
	store := resource.NewStore(st, registry)
	if err := bootstrap.EnsureNamespaces(b.Context(), store); err != nil {
		b.Fatal(err)
	}
	var pods *resource.Definition
	for _, d := range registry.Load().All() {
		if d.Plural == "pods" && d.Group == "" {
			pods = d
		}
	}
	r := &resource.Request{
		Definition: pods, Version: pods.Storage, Namespace: "default",
		Manager: "bench", FieldValidation: metav1.FieldValidationWarn, Warn: func(string) {},
	}
	body := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		result, err := store.Create(b.Context(), r, resource.Body{Data: body})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := result.Form(pods, pods.Storage, object.Protobuf); err != nil {
			b.Fatal(err)
		}
	}
}
