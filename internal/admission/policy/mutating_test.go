package policy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestMutations checks what policies make of objects, with both kinds of mutations.
func TestMutations(t *testing.T) {
	for _, tc := range []struct {
		name, mutation string
		want           map[string]any // data
		refusal        string
	}{
		{
			name:     "apply",
			mutation: `{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{data: {'b': object.data.a + '!'}}"}}`,
			want:     map[string]any{"a": "1", "b": "1!"},
		},
		{
			name:     "patch",
			mutation: `{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'move', from: '/data/a', path: '/data/b'}]"}}`,
			want:     map[string]any{"b": "1"},
		},
		{
			name:     "failed test",
			mutation: `{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/data/a'}, JSONPatch{op: 'test', path: '/data', value: {'a': '2'}}]"}}`,
			want:     map[string]any{"a": "1"},
		},
		{
			name:     "undeclared",
			mutation: `{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{a: 1}}"}}`,
			refusal:  "error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema",
		},
		{
			name:     "strict",
			mutation: `{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec', value: {'a': 1}}]"}}`,
			refusal:  `Internal error occurred: strict decoding error: unknown field "spec"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, authz.Basic{}).mutating(spec{spec: "mutations: [" + tc.mutation + "]"})
			got, err := s.create(configMap("x", "a: '1'"))
			if tc.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refusal) {
					t.Errorf("got %v, want %s", err, tc.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got["data"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPatchBomb checks that a patch that copies its own copies is bounded, as patches of clients
// are.
func TestPatchBomb(t *testing.T) {
	var steps []string
	for i := range 14 { // each operation doubles the data
		steps = append(steps, fmt.Sprintf("JSONPatch{op: 'copy', from: '/metadata/annotations', path: '/metadata/annotations/a%d'}", i))
	}
	s := newServer(t, authz.Basic{}).mutating(spec{
		spec: `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[` + strings.Join(steps, ", ") + `]"}}]`,
	})
	_, err := s.create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, annotations: {a: "` + strings.Repeat("x", 1000) + `"}}}`)
	if err == nil || !strings.Contains(err.Error(), "Unable to complete the copy, the accumulated size increase of copy is") {
		t.Errorf("got %v", err)
	}
}

// TestRenames checks that an object that an update creates cannot get another name than that in the
// path, whether or not that name is in use.
func TestRenames(t *testing.T) {
	for _, taken := range []bool{false, true} {
		s := newServer(t, authz.Basic{})
		if taken {
			s.mustCreate(configMap("other", "a: '1'"))
		}
		s.mutating(spec{spec: `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'replace', path: '/metadata/name', value: 'other'}]"}}]`})
		r := s.request("v1", "ConfigMap")
		r.Name, r.Options = "x", &metav1.PatchOptions{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := s.store.Patch(ctx, r, resource.Patch{Type: types.ApplyYAMLPatchType, Data: []byte(configMap("x", "a: '1'"))})
		cancel()
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "the name of the object (other) does not match the name on the URL (x)") {
			t.Errorf("with other taken: %v, got %v", taken, err)
		}
	}
}

// TestMutatesScale checks that a subresource with a body of its own is mutated in that form.
func TestMutatesScale(t *testing.T) {
	s := newServer(t, authz.Basic{}).mutating(spec{
		rules: `[{apiGroups: [apps], apiVersions: [v1], resources: [deployments/scale], operations: [UPDATE]}]`,
		spec: `mutations: [{patchType: JSONPatch, jsonPatch: {
			expression: "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas > 5 ? 5 : 1}]"}}]`,
	})
	s.mustCreate(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}}`)
	r := s.request("apps/v1", "Deployment")
	r.Name, r.Subresource = "x", "scale"
	result, err := s.store.Patch(s.Context(), r, resource.Patch{Type: types.MergePatchType, Data: []byte(`{"spec":{"replicas":9}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(result.Tree, "spec", "replicas"); n != 5 {
		t.Errorf("replicas %d, want 5", n)
	}
}

// TestAgain checks that only policies that request it run in the second pass, and that they see the
// changes of the others.
func TestAgain(t *testing.T) {
	count := func(key string) string {
		return `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/` + key + `', value: object.data.?` + key + `.orValue('') + 'i'}]"}}]`
	}
	s := newServer(t, authz.Basic{})
	s.mutating(spec{name: "a", spec: count("once") + "\nreinvocationPolicy: Never"})
	s.mutating(spec{name: "b", spec: count("again") + "\nreinvocationPolicy: IfNeeded"})
	got := s.mustCreate(configMap("x", "a: '1'"))
	if diff := cmp.Diff(map[string]any{"a": "1", "once": "i", "again": "ii"}, got["data"]); diff != "" {
		t.Error(diff)
	}
}

// endsWhenWatched is a context that ends as soon as its Done channel is requested, as evaluations
// do.
type endsWhenWatched struct {
	context.Context
	end context.CancelFunc
}

func (c endsWhenWatched) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}

// TestInterrupted checks that an evaluation ends with its request.
func TestInterrupted(t *testing.T) {
	s := newServer(t, authz.Basic{}).validating(spec{spec: `
variables: [{name: many, expression: "[1,2,3,4,5,6,7,8,9,10]"}]
validations: [{expression: "variables.many.all(a, variables.many.all(b, variables.many.all(c, variables.many.all(d, a + b + c + d > 0))))"}]`})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := s.request("v1", "ConfigMap")
	_, err := s.store.Create(endsWhenWatched{ctx, cancel}, r, bodyOf([]byte(`{"metadata":{"name":"x"}}`)))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "operation interrupted") {
		t.Errorf("got %v", err)
	}
}
