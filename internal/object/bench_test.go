package object

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// pod is a tree of about 1.5 KB, as a client sends them.
func pod(i int) map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata": map[string]any{
			"name": fmt.Sprintf("pod-%d", i), "namespace": "default",
			"uid":               fmt.Sprintf("7c6d1a4e-0000-4000-8000-%012d", i),
			"creationTimestamp": "2025-03-04T05:06:07Z",
			"generation":        int64(3),
			"labels":            map[string]any{"app": "web", "pod-template-hash": "5d78c9869d"},
			"annotations":       map[string]any{"kubernetes.io/config.source": strings.Repeat("a", 100)},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d78c9869d",
				"uid": "11111111-0000-4000-8000-000000000000", "controller": true, "blockOwnerDeletion": true,
			}},
			"managedFields": []any{map[string]any{
				"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": "2025-03-04T05:06:07Z",
				"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:containers": map[string]any{
					`k:{"name":"web"}`: map[string]any{".": map[string]any{}, "f:image": map[string]any{}},
				}}},
			}},
		},
		"spec": map[string]any{
			"containers": []any{map[string]any{
				"name": "web", "image": "nginx:1.27",
				"env":   []any{map[string]any{"name": "A", "value": strings.Repeat("b", 300)}},
				"ports": []any{map[string]any{"containerPort": int64(80), "protocol": "TCP"}},
			}},
			"terminationGracePeriodSeconds": int64(30),
		},
		"status": map[string]any{"phase": "Running", "podIP": "10.0.0.1", "weight": 0.25},
	}
}

var benchKey = Key{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "default", Name: "pod-1"}

func BenchmarkEncode(b *testing.B) {
	tree := pod(1)
	form, err := Encode(tree)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(form.Bytes)))
	for b.Loop() {
		if _, err := Encode(tree); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	form, err := Encode(pod(1))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(form.Bytes)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(benchKey, form.Bytes, 0, time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTree(b *testing.B) {
	o, err := New(benchKey, pod(1), 0, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(o.Raw)))
	for b.Loop() {
		if _, err := o.Tree(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendTo(b *testing.B) {
	o, err := New(benchKey, pod(1), 0, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(o.Raw)))
	buf := make([]byte, 0, 4096)
	for b.Loop() {
		buf = o.Stored().AppendTo(buf[:0], 123456)
	}
}

func BenchmarkNew(b *testing.B) {
	tree := pod(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(benchKey, tree, 0, time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLabels(b *testing.B) {
	o, err := New(benchKey, pod(1), 0, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !o.Meta.Labels.Has("pod-template-hash") || o.Meta.Labels.Has("tier") {
			b.Fatal(o.Meta.Labels)
		}
	}
}
