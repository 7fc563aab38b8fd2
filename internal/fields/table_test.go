package fields

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// tableSchema has a field of each kind.
const tableSchema = `
type: object
properties:
  spec:
    type: object
    properties:
      num: {type: integer}
      s: {type: string}
      b: {type: boolean}
      either: {x-kubernetes-int-or-string: true}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      any: {x-kubernetes-preserve-unknown-fields: true}
      inner: {type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string}}, e: {type: string}}}
      labels: {type: object, additionalProperties: {type: string}}
      atomic: {type: object, x-kubernetes-map-type: atomic, properties: {x: {type: integer}, w: {type: integer}}}
      plain: {type: array, items: {type: string}}
      set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      numbers: {type: array, x-kubernetes-list-type: set, items: {type: number}}
      flags: {type: array, x-kubernetes-list-type: set, items: {type: boolean}}
      eithers: {type: array, x-kubernetes-list-type: set, items: {x-kubernetes-preserve-unknown-fields: true}}
      ports:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [port, protocol]
        items:
          type: object
          properties: {port: {type: integer}, protocol: {type: string, default: TCP}, name: {type: string}}
      named:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          properties: {name: {type: string}, v: {type: integer}, sub: {type: object, properties: {z: {type: integer}}}}
`

func tableWorld(t testing.TB) *world {
	t.Helper()
	var s spec.Schema
	if err := yaml.Unmarshal([]byte(tableSchema), &s); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Properties["spec"].Properties { // in the form of the server's defaults
		if d, ok := p.Default.(int); ok {
			t.Fatalf("default %v is not JSON", d)
		}
	}
	return customWorld(t, map[string]*spec.Schema{"v1": &s})
}

// manyNames returns more items than are compared in pairs.
func manyNames(from, step, n int) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf("{name: n%d, v: %d}", (from+i*step)%40, i%3))
	}
	return "{named: [" + strings.Join(items, ", ") + "]}"
}

// TestTable runs scripts on both sides. A line is "apply MANAGER SPEC", "force MANAGER SPEC",
// "update MANAGER SPEC", which replaces the spec, "meta MANAGER METADATA", which updates the
// metadata, "live OBJECT", which replaces the live object, or "object MANAGER OBJECT", which
// applies a whole object.
func TestTable(t *testing.T) {
	for name, script := range map[string]string{
		"create, update, apply": `
			update a {num: 1, s: x}
			update b {num: 2, s: x}
			apply c {num: 3}
			apply c {num: 2}
			force c {num: 3}
			apply c {s: x}
			apply c {}`,
		"ownership follows values": `
			apply a {labels: {x: a, w: a}, set: [x, w], named: [{name: x, v: 1}, {name: w, v: 1}]}
			apply b {labels: {x: a, z: b}, set: [x, z], named: [{name: x, sub: {z: 1}}, {name: z, v: 1}]}
			apply a {labels: {w: a}, set: [w], named: [{name: w, v: 2}]}
			update u {labels: {x: u}, set: [x, w], named: [{name: x, v: 1}]}
			apply a {}
			apply b {}`,
		"lists keep their order": `
			apply a {set: [a, b, c, d], named: [{name: a}, {name: b}, {name: c}]}
			apply b {set: [d, x, a], named: [{name: c, v: 1}, {name: w}, {name: a, v: 1}]}
			apply c {set: [q, c, b], named: [{name: b, v: 2}]}
			apply a {set: [d, c], named: [{name: c}]}`,
		"long lists": "\napply a " + manyNames(0, 1, 20) + "\napply b " + manyNames(10, 3, 20) + "\nupdate u " + manyNames(5, 7, 25) +
			"\napply a " + manyNames(0, 2, 15) + "\nupdate u " + manyNames(0, 1, 15) + "\nupdate u " + manyNames(0, 20, 15) + "\napply b " + manyNames(0, 20, 14),
		"default keys": `
			apply a {ports: [{port: 80}, {port: 80, protocol: UDP, name: x}]}
			update u {ports: [{port: 80, protocol: TCP, name: w}, {port: 81}]}
			apply a {ports: [{port: 80, name: z}, {port: 81, protocol: TCP}]}
			apply a {ports: [{protocol: TCP, name: z}]}
			apply a {ports: [{port: 80}, {port: 80, protocol: TCP}]}`,
		"large numbers in messages": `
			live {metadata: {name: x, uid: u}, spec: {ports: [{port: 1000000, name: a}], numbers: [1000000, 1.5]}}
			apply a {ports: [{port: 1000000, name: b}]}
			force a {ports: [{port: 1000000, name: b}], numbers: [1000000]}
			update u {ports: [{port: 1000000, name: c}]}
			apply a {ports: [{port: 1000000, name: b}]}
			apply b {ports: [{port: 1000000, name: b}]}`,
		"keys of all sorts": `
			apply a {numbers: [1, 1.5, -3, 100000000000000000000000, 0.0000001], flags: [true, false], eithers: [1, "1", true, 1.5], set: ["a<b>&c", "é", "\"q\\", ""]}
			update u {numbers: [1.0, 2], flags: [true], eithers: ["1"], set: ["é"]}
			apply a {numbers: [1], flags: [false], eithers: [true], set: ["a<b>&c"]}`,
		"indistinguishable": `
			apply a {eithers: [{x: 1}]}
			apply a {eithers: [[1]]}
			apply a {eithers: [null]}
			apply a {named: [null]}
			apply a {named: [{v: 1}]}
			apply a {named: [x]}
			update u {eithers: [{x: 1}], num: 1}
			update u {named: [{v: 1}], num: 1}`,
		"repeated": `
			apply a {set: [x, x]}
			apply a {named: [{name: x}, {name: x}]}
			update u {set: [x, x, w], named: [{name: x, v: 1}, {name: x, v: 2}, {name: w}]}
			update v {set: [x, w, w], named: [{name: x, v: 1}, {name: w}, {name: w, v: 1}]}
			apply a {set: [x, w], named: [{name: x, v: 1}, {name: w}]}
			update u {set: [w, w, w], named: [{name: w}, {name: w, v: 1}]}
			apply a {set: [w], named: []}
			update u {named: [{name: x, v: 1}, {name: x, v: z}]}
			update u {named: [{name: x, v: 1}, {name: x, v: 1}]}
			update u {named: [{name: x, v: 1}, {name: x, v: z}]}
			update u {named: [{name: w, v: 1}, {name: w, v: z}]}
			update u {free: {a: 1}, named: [{name: w, unknown: 1}, {name: w, v: 1}, {name: w, v: 1}]}`,
		"wrong types": `
			apply a {num: x}
			apply a {s: 1}
			apply a {b: x}
			apply a {either: {}}
			apply a {plain: {}}
			apply a {labels: []}
			apply a {unknown: 1}
			apply a {atomic: {z: 1}}
			apply a {plain: [1]}
			update u {num: x}`,
		"null, empty, nothing": `
			apply a {labels: {}, named: [], free: {}, any: null, plain: [], set: []}
			apply b {labels: null, named: null, free: null, any: {}, plain: null, set: null, num: null}
			update u {labels: {x: w}, named: [{name: x}], free: {x: {w: 1}}, any: [1], plain: [x], set: [x], num: 1}
			force b {labels: null, named: null, free: null, any: null, plain: null, set: null, num: null}
			update u {labels: {}, named: [], free: {x: null}, any: {x: 1}}
			apply a {any: x}
			force a {any: x}
			force a {any: {x: {w: 1}}}
			force a {any: [1]}`,
		"numbers of both kinds": `
			apply a {any: 1, numbers: [1, 2]}
			apply b {any: 1.0, numbers: [1.0, 2.0]}
			update u {any: 1.0, numbers: [1.0, 2]}
			apply a {any: 1.0, s: x}`,
		"owners in the request": `
			update a {num: 1}
			meta b {managedFields: []}
			update c {num: 2}
			apply d {num: 3}
			meta e {managedFields: [{}]}
			apply d {num: 3}
			meta e {managedFields: [{manager: m, operation: Update, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:num": {}, ".": {"f:x": {}}}}}]}
			apply d {num: 4}
			meta e {managedFields: [{manager: m, operation: Other, apiVersion: example.com/v1, fieldsType: FieldsV1}]}
			meta e {managedFields: [{manager: m, operation: Update, apiVersion: example.com/v9, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:num": {}}}}]}
			meta e {managedFields: [{manager: m, operation: Update, apiVersion: other/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:num": {}}}}]}
			meta e {managedFields: [{manager: m, operation: Update, apiVersion: a/b/c, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:num": {}}}}]}
			meta e {managedFields: [{manager: m, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, time: "2020-01-01T01:00:00.5+01:00", fieldsV1: {"f:spec": {"f:num": {}, "x:w": {}}}}]}
			meta e {managedFields: [{manager: m, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, time: "0001-01-01T00:00:00Z", fieldsV1: {"f:spec": {"f:num": null}}}]}
			meta e {managedFields: [x]}
			meta e {managedFields: {}}
			apply m {}`,
		"stored owners that cannot be read": `
			live {metadata: {uid: u, managedFields: [{manager: m, operation: Other, apiVersion: v1, fieldsType: FieldsV1}]}}
			apply a {num: 1}
			live {metadata: {uid: u, managedFields: [{manager: m, operation: Apply, fieldsType: FieldsV1}]}}
			apply a {num: 1}
			live {metadata: {uid: u, managedFields: [{manager: m, operation: Apply, apiVersion: v1}]}}
			apply a {num: 1}
			live {metadata: {uid: u, managedFields: [{manager: m, operation: Apply, apiVersion: v1, fieldsType: V2}]}}
			apply a {num: 1}
			update a {num: 1}`,
		"parts of what is owned as a whole": `
			live {metadata: {uid: u, managedFields: [{manager: m, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {
				"f:spec": {"f:atomic": {"f:x": {}, "f:w": {}}, "f:plain": {".": {}, "v:\"x\"": {}}, "f:named": {".": {}, "k:{\"name\":\"x\"}": {"f:v": {}}}}}}]},
				spec: {atomic: {x: 1, w: 2}, plain: [x], named: [{name: x, v: 1}]}}
			update u {atomic: {x: 2, w: 2}, plain: [x], named: [{name: x, v: 1}]}
			apply m {atomic: {x: 1}}
			apply m {plain: [w]}
			apply m {}`,
		"nothing applied to what has no owner": `
			live {metadata: {uid: u, managedFields: [{manager: a, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {
				"f:spec": {"f:inner": {}}}}]}, spec: {inner: {l: [], e: x}}}
			apply a {inner: {}}
			live {metadata: {uid: u, managedFields: [{manager: a, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {
				"f:spec": {"f:inner": {"f:l": {}}}}}]}, spec: {inner: {l: [x], e: x}}}
			apply a {inner: {l: null}}`,
		"items that lose their keys": `
			live {metadata: {uid: u, managedFields: [{manager: m, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {
				"f:spec": {"f:named": {"k:{\"name\":\"x\"}": {"f:name": {}}}}}}]}, spec: {named: [{name: x, v: 1}]}}
			apply m {}
			apply m {num: 1}`,
		"other objects": `
			object a {apiVersion: example.com/v2, kind: Thing}
			object a {apiVersion: example.com/v1, kind: Other}
			object a {apiVersion: example.com/v1, kind: Thing, metadata: {managedFields: []}}
			object a {apiVersion: example.com/v1, kind: Thing}
			object a {apiVersion: example.com/v1, kind: Thing, metadata: {name: x, labels: {a: b}, ownerReferences: [{uid: u, name: nn, kind: k, apiVersion: v}]}}
			object b {apiVersion: example.com/v1, kind: Thing, metadata: {finalizers: [x], annotations: {a: b}}}
			object a {apiVersion: example.com/v1, kind: Thing}`,
		"from the client's side": `
			meta kubectl-client-side-apply {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"example.com/v1","kind":"Thing","metadata":{},"spec":{"num":1,"s":"x","set":["a"]}}'}}
			update kubectl-client-side-apply {num: 1, s: w, set: [a, b]}
			apply kubectl {num: 2, set: [a]}
			apply kubectl {num: 3, s: z}
			apply kubectl {s: z}
			object kubectl {apiVersion: example.com/v1, kind: Thing, metadata: {annotations: {x: w, kubectl.kubernetes.io/last-applied-configuration: z}}, spec: {num: 3}}
			apply other {num: 4}`,
		"an annotation that does not help": `
			meta x {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"example.com/v2","kind":"Thing"}'}}
			update u {num: 1}
			apply kubectl {num: 2}
			meta x {annotations: {kubectl.kubernetes.io/last-applied-configuration: 'x'}}
			apply kubectl {num: 2}
			meta x {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"example.com/v1","kind":"Thing","spec":{"num":"x"}}'}}
			apply kubectl {num: 2}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := tableWorld(t)
			m := w.managers(t, "v1", "", nil)
			live := Tree{"apiVersion": "example.com/v1", "kind": "Thing"}
			for i, line := range logicalLines(script) {
				live = runLine(t, m, live, i, line)
			}
		})
	}
}

// logicalLines returns the lines of a script; indented lines continue the previous one.
func logicalLines(script string) (lines []string) {
	for line := range strings.SplitSeq(strings.Trim(script, "\n"), "\n") {
		text := strings.TrimLeft(line, "\t")
		if len(line)-len(text) > 3 {
			lines[len(lines)-1] += " " + text
		} else if text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

func runLine(t *testing.T, m pair, live Tree, step int, line string) Tree {
	t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	if verb == "live" {
		obj := parseTree(t, rest)
		obj["apiVersion"], obj["kind"] = "example.com/v1", "Thing"
		return obj
	}
	manager, body, _ := strings.Cut(rest, " ")
	tree := parseTree(t, body)
	obj := Tree{"apiVersion": "example.com/v1", "kind": "Thing", "spec": tree}
	var ours, theirs outcome
	switch verb {
	case "apply", "force":
		ours, theirs = m.apply(live, obj, manager, verb == "force")
	case "object":
		ours, theirs = m.apply(live, tree, manager, false)
	case "update":
		next := kruntime.DeepCopyJSON(live)
		next["spec"] = tree
		ours, theirs = m.update(live, next, manager)
	case "meta":
		next := kruntime.DeepCopyJSON(live)
		meta, _ := next["metadata"].(Tree)
		if meta == nil {
			meta = Tree{}
		}
		for k, v := range tree {
			meta[k] = v
		}
		next["metadata"] = meta
		ours, theirs = m.update(live, next, manager)
	default:
		t.Fatalf("line %d: no verb %q", step, verb)
	}
	settleTimes(ours.obj, clockAt(step))
	settleTimes(theirs.obj, clockAt(step))
	if d := disagreement(ours, theirs); d != "" {
		t.Errorf("line %d, %s\nlive %s\n%s", step, line, text(live), d)
	}
	t.Logf("%s: %v", line, ours.err)
	if ours.err != nil {
		return live
	}
	next := kruntime.DeepCopyJSON(ours.obj)
	meta, _ := next["metadata"].(Tree)
	if meta == nil {
		meta = Tree{}
		next["metadata"] = meta
	}
	meta["uid"] = "u"
	return next
}

func parseTree(t *testing.T, s string) Tree {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON([]byte(`{"kind": "x", "v": ` + string(b) + `}`)); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	tree, _ := u.Object["v"].(map[string]any)
	return tree
}

// TestScale manages a Scale, which has no schema.
func TestScale(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	w := &world{group: gvk.Group, kind: gvk.Kind, judge: managedfields.NewDeducedTypeConverter(),
		types: map[schema.GroupVersionKind]*Type{gvk: Deduced()}, blank: func() Tree { return Tree{} }}
	m := w.managers(t, "v1", "scale", nil)
	live := Tree{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": Tree{"uid": "u", "managedFields": []any{Tree{
		"manager": "hpa", "operation": "Update", "apiVersion": "autoscaling/v1", "fieldsType": "FieldsV1", "subresource": "scale",
		"fieldsV1": Tree{"f:spec": Tree{"f:replicas": Tree{}}}}}}, "spec": Tree{"replicas": int64(1)}}
	applied := Tree{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": Tree{"replicas": int64(2)}}
	for _, force := range []bool{false, true} {
		ours, theirs := m.apply(live, applied, "me", force)
		settleTimes(ours.obj, clockAt(1))
		settleTimes(theirs.obj, clockAt(1))
		if d := disagreement(ours, theirs); d != "" {
			t.Error(d)
		}
	}
	next := kruntime.DeepCopyJSON(live)
	next["spec"] = Tree{"replicas": int64(3), "list": []any{Tree{}}}
	ours, theirs := m.update(live, next, "me")
	settleTimes(ours.obj, clockAt(1))
	settleTimes(theirs.obj, clockAt(1))
	if d := disagreement(ours, theirs); d != "" {
		t.Error(d)
	}
}

// TestSharedDefinitions checks that kinds can share compiled definitions.
func TestSharedDefinitions(t *testing.T) {
	base := tableWorld(t)
	metadata := map[string]*spec.Schema{}
	rest := map[string]*spec.Schema{}
	for name, s := range base.models {
		if strings.HasPrefix(name, "com.example") {
			rest[name] = s
		} else {
			metadata[name] = s
		}
	}
	_, common, err := OfModels(metadata, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds, types, err := OfModels(rest, false, common)
	if err != nil {
		t.Fatal(err)
	}
	if types.Named(objectMeta).root != common.Named(objectMeta).root {
		t.Error("ObjectMeta was compiled twice")
	}
	if types.Named("nothing") != nil {
		t.Error("Named returns a type for an unknown name")
	}
	if _, _, err := OfModels(rest, false, nil); err == nil || !strings.Contains(err.Error(), objectMeta) {
		t.Errorf("a missing reference: %v", err)
	}
	base.types = kinds
	m := base.managers(t, "v1", "", nil)
	live := Tree{"apiVersion": "example.com/v1", "kind": "Thing"}
	for i, line := range []string{"apply a {ports: [{port: 80}]}", "meta u {labels: {x: y}}", "apply a {ports: [{port: 80, protocol: TCP, name: x}]}"} {
		live = runLine(t, m, live, i, line)
	}
}

// TestDeepValues checks that the work depends on the size of an object, not on its depth.
func TestDeepValues(t *testing.T) {
	m := tableWorld(t).managers(t, "v1", "", nil).ours
	cost := func(depth int) uint64 {
		deep := func(leaf any) any {
			v := leaf
			for range depth {
				v = Tree{"x": v}
			}
			return v
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		obj := func(leaf any) Tree {
			return Tree{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": Tree{"name": "x"}, "spec": Tree{"free": deep(leaf)}}
		}
		live, err := m.Update(Tree{"apiVersion": "example.com/v1", "kind": "Thing"}, obj("one"), "u")
		if err != nil {
			t.Fatal(err)
		}
		live, err = m.Apply(live, obj("one"), "a", false)
		if err != nil {
			t.Fatal(err)
		}
		live, err = m.Apply(live, obj("two"), "a", true)
		if err != nil {
			t.Fatal(err)
		}
		live, err = m.Apply(live, obj(Tree{"y": "two"}), "a", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = m.Apply(live, obj(int64(1)), "b", false); err == nil {
			t.Fatal("no conflict")
		}
		if _, err = m.Apply(live, Tree{"apiVersion": "example.com/v1", "kind": "Thing"}, "a", false); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := cost(5_000), cost(10_000)
	if large > 3*small {
		t.Errorf("10,000 levels take %d bytes, 5,000 take %d", large, small)
	}
}

// TestTooManyConflicts checks that the error does not list the conflicts at all levels of a deep
// object, and that conflicts that are not listed still count.
func TestTooManyConflicts(t *testing.T) {
	m := tableWorld(t).managers(t, "v1", "", nil).ours
	owned, deep := Tree{}, any(Tree{})
	for range 5_000 {
		owned, deep = Tree{".": Tree{}, "f:x": owned}, Tree{"x": deep}
	}
	applied := Tree{"apiVersion": "example.com/v1", "kind": "Thing", "spec": Tree{"free": deep}}
	// The annotation has none of these fields, so they are conflicts for kubectl as well.
	live := Tree{"apiVersion": "example.com/v1", "kind": "Thing", "spec": Tree{"s": "x"}, "metadata": Tree{
		"annotations": Tree{lastAppliedAnnotation: text(Tree{"apiVersion": "example.com/v1", "kind": "Thing"})},
		"managedFields": []any{Tree{"manager": "m", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1",
			"fieldsV1": Tree{"f:spec": Tree{"f:free": owned}}}},
	}}
	for _, manager := range []string{"other", kubectl} {
		_, err := m.Apply(live, applied, manager, false)
		if !apierrors.IsConflict(err) || !strings.HasSuffix(err.Error(), "\n- ...") {
			t.Errorf("%s: the conflict does not end in an ellipsis: %.200v", manager, err)
		}
	}
	if _, err := m.Apply(live, applied, "other", true); err != nil {
		t.Error(err)
	}
}
