package fields

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// benchCase is an object with a history: one manager has created it, another has applied it, and a
// third has updated its status.
type benchCase struct {
	name    string
	m       pair
	live    Tree
	updated Tree // live after an update
	applied Tree // an applied object with one changed field
	fewer   Tree // an applied object with one changed and one removed field
}

// benchCases are a custom object of 30 fields and a Deployment.
func benchCases(tb testing.TB) []benchCase {
	s := typeOf("object")
	fields := typeOf("object")
	values := Tree{}
	for i := range 20 {
		fields.SetProperty(fmt.Sprintf("field%d", i), *typeOf("string"))
		values[fmt.Sprintf("field%d", i)] = "value"
	}
	item := typeOf("object")
	for _, name := range []string{"name", "image", "policy"} {
		item.SetProperty(name, *typeOf("string"))
	}
	list := typeOf("array")
	list.Items = &spec.SchemaOrArray{Schema: item}
	list.AddExtension("x-kubernetes-list-type", "map")
	list.AddExtension("x-kubernetes-list-map-keys", []any{"name"})
	fields.SetProperty("items", *list)
	values["items"] = []any{
		Tree{"name": "a", "image": "a:1", "policy": "Always"}, Tree{"name": "b", "image": "b:1", "policy": "Always"},
	}
	s.SetProperty("spec", *fields)
	status := typeOf("object")
	status.SetProperty("phase", *typeOf("string"))
	status.SetProperty("replicas", *typeOf("integer"))
	s.SetProperty("status", *status)
	w := customWorld(tb, map[string]*spec.Schema{"v1": s})
	thing := Tree{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": Tree{"name": "thing", "labels": Tree{"app": "x"}}, "spec": values}
	return []benchCase{
		newBenchCase(tb, "thing", w, "v1", thing, "spec", "field0", "field1"),
		newBenchCase(tb, "deployment", builtinWorld(tb, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}), "v1", deployment(),
			"spec", "replicas", "paused"),
	}
}

func deployment() Tree {
	container := func(name string) Tree {
		return Tree{
			"name": name, "image": name + ":1", "args": []any{"-v"},
			"env":       []any{Tree{"name": "A", "value": "a"}, Tree{"name": "B", "value": "b"}},
			"ports":     []any{Tree{"containerPort": int64(80), "protocol": "TCP"}},
			"resources": Tree{"requests": Tree{"cpu": "100m", "memory": "1Gi"}},
		}
	}
	return Tree{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": Tree{"name": "d", "labels": Tree{"app": "d"}},
		"spec": Tree{
			"replicas": int64(1), "paused": true, "selector": Tree{"matchLabels": Tree{"app": "d"}},
			"template": Tree{
				"metadata": Tree{"labels": Tree{"app": "d"}},
				"spec":     Tree{"containers": []any{container("one"), container("two")}, "restartPolicy": "Always"},
			},
		},
	}
}

func newBenchCase(tb testing.TB, name string, w *world, version string, obj Tree, part, change, drop string) benchCase {
	tb.Helper()
	c := benchCase{name: name, m: w.managers(tb, version, "", nil)}
	step := func(ours, theirs outcome) Tree {
		tb.Helper()
		if d := disagreement(ours, theirs); d != "" {
			tb.Fatal(d)
		}
		if ours.err != nil {
			tb.Fatal(ours.err)
		}
		return runtime.DeepCopyJSON(ours.obj)
	}
	c.live = step(c.m.apply(Tree{"apiVersion": obj["apiVersion"], "kind": obj["kind"]}, obj, "applier", false))
	c.live["metadata"].(Tree)["uid"] = "u"
	next := runtime.DeepCopyJSON(c.live)
	next["metadata"].(Tree)["annotations"] = Tree{"a": "x", "b": "y"}
	c.live = step(c.m.update(c.live, next, "annotator"))
	next = runtime.DeepCopyJSON(c.live)
	next["status"] = Tree{"replicas": int64(1)}
	c.live = step(c.m.update(c.live, next, "controller"))

	edited := func(obj Tree) Tree {
		obj = runtime.DeepCopyJSON(obj)
		switch s := obj[part].(Tree); s[change].(type) {
		case string:
			s[change] = "other"
		default:
			s[change] = int64(7)
		}
		return obj
	}
	c.updated, c.applied, c.fewer = edited(c.live), edited(obj), edited(obj)
	delete(c.fewer[part].(Tree), drop)
	step(c.m.update(c.live, c.updated, "annotator"))
	step(c.m.apply(c.live, c.applied, "applier", false))
	step(c.m.apply(c.live, c.fewer, "applier", false))
	return c
}

// BenchmarkUpdate measures an update of one field. Both sides include a copy of the object.
func BenchmarkUpdate(b *testing.B) {
	for _, c := range benchCases(b) {
		b.Run(c.name+"/ours", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.m.ours.Update(c.live, shallow(c.updated), "annotator"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/library", func(b *testing.B) {
			b.ReportAllocs()
			live := &unstructured.Unstructured{Object: c.live}
			for b.Loop() {
				if _, err := c.m.theirs.Update(live, &unstructured.Unstructured{Object: shallow(c.updated)}, "annotator"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply measures an apply with one changed field, and one with another field removed.
func BenchmarkApply(b *testing.B) {
	for _, c := range benchCases(b) {
		for name, applied := range map[string]Tree{"changed": c.applied, "removed": c.fewer} {
			b.Run(c.name+"/"+name+"/ours", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.m.ours.Apply(c.live, applied, "applier", false); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(c.name+"/"+name+"/library", func(b *testing.B) {
				b.ReportAllocs()
				live := &unstructured.Unstructured{Object: c.live}
				for b.Loop() {
					if _, err := c.m.theirs.Apply(live, &unstructured.Unstructured{Object: applied}, "applier", false); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// shallow copies the parts of an object that an update changes: managedFields.
func shallow(obj Tree) Tree {
	out, meta := Tree{}, Tree{}
	for k, v := range obj {
		out[k] = v
	}
	for k, v := range obj["metadata"].(Tree) {
		meta[k] = v
	}
	out["metadata"] = meta
	return out
}
