package object

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/go-cmp/cmp"
)

func TestPart(t *testing.T) {
	whole := pod(1)
	deep := strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600)
	for _, c := range []struct {
		raw   string
		paths []string
		want  map[string]any
	}{
		{"", []string{"metadata", "spec", "status", "kind", "apiVersion"}, whole},
		{"", []string{"status.phase", "metadata.name", "spec.nodeName", "kind.x", "x"}, map[string]any{
			"kind": "Pod", "metadata": map[string]any{"name": "pod-1"}, "spec": map[string]any{}, "status": map[string]any{"phase": "Running"},
		}},
		{"", []string{"metadata.labels", "metadata.labels.app", "metadata.labels"}, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web", "pod-template-hash": "5d78c9869d"}},
		}},
		{"", []string{"spec.containers.name"}, map[string]any{"spec": map[string]any{"containers": whole["spec"].(map[string]any)["containers"]}}},
		{`{"a\n\"":{"b":"\n"},"metadata":{"uid":"u"}}`, []string{"a\n\".b"}, map[string]any{"a\n\"": map[string]any{"b": "\n"}}},
		{`{"a":1,"metadata":{"uid":"u"}}`, nil, map[string]any{}},
	} {
		o := &Object{Raw: []byte(c.raw)}
		if c.raw == "" {
			var err error
			if o, err = New(benchKey, whole, 0, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := o.Part(FieldPathsOf(c.paths...))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", c.paths, err, diff)
		}
	}
	o := &Object{Raw: []byte(`{"a":` + deep + `,"b":"c","metadata":{"uid":"u"}}`)}
	if tree, err := o.Part(FieldPathsOf("b")); err != nil || tree["b"] != "c" {
		t.Errorf("an object that is nested deeply: %v", err)
	}
	if _, err := (&Object{Raw: []byte(`{"a":`)}).Part(FieldPathsOf("b")); err == nil {
		t.Error("half an object is decoded")
	}
}

// TestPartOfAny compares the values at random paths of random objects with those of the whole tree.
func TestPartOfAny(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 2))
	for range 2000 {
		tree := map[string]any{"metadata": map[string]any{"uid": "u"}, "x": randomValue(r, 0), "y": randomValue(r, 0)}
		o, err := New(benchKey, tree, 0, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if tree, err = o.Tree(); err != nil {
			t.Fatal(err)
		}
		paths := FieldPaths{}
		var want [][]string
		for range 3 {
			path := randomPath(r, tree)
			paths.add(path)
			want = append(want, path)
		}
		part, err := o.Part(paths)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range want {
			if diff := cmp.Diff(at(tree, path), at(part, path)); diff != "" {
				t.Fatalf("%s at %q: %s", o.Raw, path, diff)
			}
		}
		for key := range part {
			if !slices.ContainsFunc(want, func(path []string) bool { return path[0] == key }) {
				t.Fatalf("%s: the part has %q without being asked for it", o.Raw, key)
			}
		}
	}
}

// randomPath returns the keys from the root to a value.
func randomPath(r *rand.Rand, tree map[string]any) (path []string) {
	keys := make([]string, 0, len(tree))
	for key := range tree {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	key := keys[r.IntN(len(keys))]
	if below, ok := tree[key].(map[string]any); ok && len(below) > 0 && r.IntN(4) > 0 {
		return append([]string{key}, randomPath(r, below)...)
	}
	return []string{key}
}

func at(v any, path []string) any {
	for _, key := range path {
		tree, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = tree[key]
	}
	return v
}

func BenchmarkPart(b *testing.B) {
	o, err := New(benchKey, pod(1), 0, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	paths := FieldPathsOf("spec.nodeName", "status.phase", "status.podIP")
	for name, decode := range map[string]func() (map[string]any, error){
		"whole": o.Tree,
		"part":  func() (map[string]any, error) { return o.Part(paths) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
