package crd

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/test/seeds"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const mutatedDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ws.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ws, kind: W}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: &schema {type: object, properties: {spec: &spec {type: object, maxProperties: 4, properties: {
      a: {type: string}, d: {type: string, default: given}, n: {type: integer, nullable: true},
      m: {type: object, additionalProperties: {type: string}}, l: {type: array, x-kubernetes-list-type: set, items: {type: string}},
      t: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}},
      x-kubernetes-validations: [{rule: "!has(self.m) || self.m.all(k, k != 'no')"}]}, status: {type: object, properties: {s: {type: string}}}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}, e: {type: string, default: more}}}, status: {type: object}}}}
`

// A mutator is an Admission whose only mutator is this function.
type mutator func(a *resource.Admitted) error

func (m mutator) Begin(*resource.Request, resource.Operation) resource.Admitter { return m }
func (m mutator) Mutate(_ context.Context, a *resource.Admitted) error          { return m(a) }
func (m mutator) Validate(context.Context, *resource.Admitted) error            { return nil }

// TestMutatedAtRandom lets admission put random values into random fields of custom resources. Each
// write either fails with an error for clients, and changes nothing, or stores an object that can
// be read, and whose metadata is what the store takes it for.
func TestMutatedAtRandom(t *testing.T) {
	s := newServer(t)
	s.mustCreate(mutatedDefinition)
	d := s.established("ws.example.com")
	random := rand.New(rand.NewPCG(seeds.Of(t), 0))
	s.mustCreate("{apiVersion: example.com/v1, kind: W, metadata: {name: one}, spec: {a: x}}")
	stored := func(name string) *object.Object {
		o, _ := s.store.State().Get(d.Key("default", name))
		return o
	}
	written, refused, raw := 0, 0, 0
	for range 4000 {
		s.store.SetGate(resource.Gate{Admission: mutator(func(a *resource.Admitted) error {
			for range 1 + random.IntN(3) {
				if err := mutateAtRandom(a, random); err != nil {
					return apierrors.NewInternalError(err)
				}
			}
			var err error
			a.Object, err = a.Restore(context.Background(), a.Object)
			return err
		})})
		r := s.request(d, []string{"v1", "v2"}[random.IntN(2)])
		r.User = someUser{}
		body := resource.Body{Data: []byte(`{"apiVersion":"example.com/` + r.Version.Name + `","kind":"W","metadata":{"name":"new"},"spec":{"a":"y"}}`)}
		before := stored("one")
		result, err := resource.Result{}, error(nil)
		switch r.Subresource = []string{"", "status"}[random.IntN(2)]; random.IntN(3) {
		case 0:
			r.Subresource = ""
			result, err = s.store.Create(t.Context(), r, body)
		case 1:
			r.Name = "one"
			result, err = s.store.Patch(t.Context(), r, resource.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"a":"z"},"status":{"s":"w"}}`)})
		case 2:
			r.Name = "one"
			text, _ := json.Marshal(before.Revision.String())
			body.Data = []byte(`{"apiVersion":"example.com/` + r.Version.Name + `","kind":"W","metadata":{"name":"one","resourceVersion":` + string(text) + `},"spec":{"a":"y"},"status":{}}`)
			result, err = s.store.Update(t.Context(), r, body)
		}
		if err != nil {
			refused++
			if now := stored("one"); now != before {
				t.Fatalf("a refused write (%v) has changed %s to %s", err, before.Raw, now.Raw)
			}
			status := apierrors.APIStatus(nil)
			if errors.As(err, &status) && status.Status().Code == 0 {
				t.Fatalf("%v has no code", err)
			}
			continue
		}
		written++
		now, _ := s.store.State().Get(result.Object.Key)
		if now == nil {
			t.Fatalf("%s is not stored", result.Object.Key)
		}
		if now.Schema == 0 {
			raw++
		}
		for _, version := range []string{"v1", "v2"} {
			obj := s.read(s.request(d, version), now)
			normal, err := served(d, version).Model.Prune(runtime.DeepCopyJSON(obj))
			if err == nil && version == "v1" { // defaults are those of the stored version
				normal, err = served(d, version).Model.Normalise(normal, new([]error))
			}
			if err != nil || !object.Equal(obj, normal) {
				t.Fatalf("%s is read in %s as %v, which is not normalised (%v): %v", now.Raw, version, obj, err, normal)
			}
			m := obj["metadata"].(map[string]any)
			if m["name"] != now.Key.Name || m["uid"] != string(now.Meta.UID) || len(now.Meta.Finalizers) != len(list(m["finalizers"])) {
				t.Fatalf("%s is read with the metadata %v", now.Raw, m)
			}
		}
		if now.Key.Name != "one" {
			s.store.SetGate(resource.Gate{})
			again := s.request(d, "v1")
			again.Name = now.Key.Name
			if _, err := s.store.Delete(t.Context(), again, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d written, %d of them not normalised; %d refused", written, raw, refused)
	if written < 200 || raw < 50 || refused < 200 {
		t.Errorf("%d written, %d of them not normalised; %d refused: the test has become one-sided", written, raw, refused)
	}
}

// mutateAtRandom does what a webhook does: it changes the JSON of the object, which is decoded
// then.
func mutateAtRandom(a *resource.Admitted, random *rand.Rand) error {
	changed := runtime.DeepCopyJSON(a.Object)
	pick := func(of ...any) any { return of[random.IntN(len(of))] }
	value := func() any {
		return runtime.DeepCopyJSONValue(pick(nil, "x", int64(1), 1.5, true, []any{}, []any{"a"}, []any{int64(1)}, []any{map[string]any{}}, map[string]any{},
			map[string]any{"a": "b"}, map[string]any{"a": nil}, map[string]any{"a": int64(1)}, "2020-01-01T00:00:00Z", "example.com/v2", "W"))
	}
	at := changed
	key := pick("apiVersion", "kind", "metadata", "spec", "status", "unknown", "spec", "metadata", "spec", "metadata").(string)
	if inner, ok := at[key].(map[string]any); ok && random.IntN(8) > 0 {
		at = inner
		key = pick("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "generation", "creationTimestamp", "uid", "managedFields",
			"resourceVersion", "deletionGracePeriodSeconds", "generateName", "selfLink", "unknown").(string)
		if _, ok := changed["metadata"].(map[string]any); !ok || random.IntN(2) == 0 {
			key = pick("a", "d", "n", "m", "l", "t", "e", "s", "unknown").(string)
		}
	}
	if random.IntN(6) == 0 {
		delete(at, key)
	} else {
		at[key] = value()
	}
	data, err := object.AppendJSON(nil, changed)
	if err != nil {
		return err
	}
	obj, err := a.Decode(data, a.Kind, a.Request.Version, nil)
	if err != nil {
		return err
	}
	a.Object, err = a.Default(obj)
	return err
}

type someUser struct{}

func (someUser) GetName() string               { return "someone" }
func (someUser) GetUID() string                { return "" }
func (someUser) GetGroups() []string           { return nil }
func (someUser) GetExtra() map[string][]string { return nil }

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
