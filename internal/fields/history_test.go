package fields

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/openapi"
	"github.com/kapok-dev/kapok/test/seeds"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// parts returns the fields of objects that histories change.
func parts(root *spec.Schema) (names []string) {
	for _, name := range sortedKeys(root.Properties) {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			names = append(names, name)
		}
	}
	return names
}

// toggle changes whether lists and maps are owned as a whole.
func (g gen) toggle(s *spec.Schema) {
	if g.chance(30) && len(s.Type) > 0 {
		ext := spec.Extensions{}
		maps.Copy(ext, s.Extensions)
		switch s.Type[0] {
		case "object":
			ext["x-kubernetes-map-type"] = g.pick("atomic", "granular")
		case "array":
			if ext["x-kubernetes-list-type"] != nil {
				ext["x-kubernetes-list-type"] = "atomic"
			}
		}
		s.Extensions = ext
	}
	properties := map[string]spec.Schema{}
	for _, name := range sortedKeys(s.Properties) {
		p := s.Properties[name]
		if name != "metadata" {
			g.toggle(&p)
		}
		properties[name] = p
	}
	if s.Properties != nil {
		s.Properties = properties
	}
}

// TestRandomSequences runs long histories of an object on both sides: creates, updates, patches and
// applies by several managers in two versions, on the main resource and on status, with a change of
// the schema in the middle.
func TestRandomSequences(t *testing.T) {
	seed := seeds.Of(t)
	histories := 20
	if testing.Short() {
		histories = 10
	}
	total := map[string]int{}
	for i := range histories {
		for what, n := range runHistory(t, seed+uint64(i), 60) {
			total[what] += n
		}
		if t.Failed() {
			return
		}
	}
	t.Log(total)
	if total["success"] == 0 || total["conflict"] == 0 || total["error"] == 0 {
		t.Errorf("one kind of outcome is missing: %v", total)
	}
}

// TestBuiltinSequences does the same for built-in kinds.
func TestBuiltinSequences(t *testing.T) {
	seed := seeds.Of(t)
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		t.Run(gvk.Kind, func(t *testing.T) {
			w := builtinWorld(t, gvk)
			root := w.models[openapi.Builtin().NameOf(gvk)]
			total := map[string]int{}
			for i := range uint64(3) {
				h := newHistory(t, seed+i, w, map[string]*spec.Schema{"v1": root})
				h.run(50)
				for what, n := range h.counts {
					total[what] += n
				}
				if t.Failed() {
					return
				}
			}
			t.Log(total)
			if total["success"] == 0 {
				t.Errorf("no request succeeded: %v", total)
			}
		})
	}
}

func runHistory(t *testing.T, seed uint64, steps int) (counts map[string]int) {
	t.Helper()
	g := gen{Rand: rand.New(rand.NewPCG(seed, 1))}
	roots := map[string]*spec.Schema{"v1": g.root()}
	renamed := g.chance(50)
	h := newHistory(t, seed, nil, roots)
	h.enter(renamed)
	h.run(steps / 2)
	for _, name := range parts(roots["v1"]) { // not the root: the library cannot remove fields from an atomic one
		p := roots["v1"].Properties[name]
		g.toggle(&p)
		roots["v1"].Properties[name] = p
	}
	h.enter(renamed)
	h.run(steps / 2)
	return h.counts
}

// history is a sequence of requests for one object.
type history struct {
	t        *testing.T
	seed     uint64
	g        gen
	w        *world
	roots    map[string]*spec.Schema
	managers map[string]pair
	tampers  bool
	live     Tree
	clock    time.Time
	step     int
	counts   map[string]int
}

func newHistory(t *testing.T, seed uint64, w *world, roots map[string]*spec.Schema) *history {
	h := &history{t: t, seed: seed, g: gen{Rand: rand.New(rand.NewPCG(seed, 2))}, w: w, roots: roots,
		live: Tree{}, clock: time.Unix(1_600_000_000, 0), counts: map[string]int{}}
	h.tampers = h.g.chance(60)
	if w != nil {
		h.g.models = w.models
		h.manage()
	}
	return h
}

// enter replaces the world of a custom kind, according to the schema of v1.
func (h *history) enter(renamed bool) {
	v1 := h.roots["v1"]
	v2 := *v1
	v2.VendorExtensible = spec.VendorExtensible{}
	v2.Properties = map[string]spec.Schema{}
	maps.Copy(v2.Properties, v1.Properties)
	if renamed {
		p := v2.Properties["spec"]
		properties := map[string]spec.Schema{}
		maps.Copy(properties, p.Properties)
		if a, ok := properties["a"]; ok {
			properties["renamed"] = a
			delete(properties, "a")
		}
		p.Properties = properties
		v2.Properties["spec"] = p
	}
	h.roots["v2"] = &v2
	h.w = customWorld(h.t, map[string]*spec.Schema{"v1": v1, "v2": &v2})
	h.w.renamed = renamed
	if h.g.chance(30) {
		h.w.defaults = func(obj Tree) {
			if labels, ok := obj["metadata"].(Tree)["labels"].(Tree); ok && len(labels) > 0 { // the library shares an empty one with the applied object
				labels["defaulted"] = "yes"
			}
		}
	}
	h.manage()
}

func (h *history) manage() {
	status := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	rest := fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"))
	h.managers = map[string]pair{}
	for version := range h.roots {
		h.managers[version] = h.w.managers(h.t, version, "", status)
		h.managers[version+"/status"] = h.w.managers(h.t, version, "status", rest)
	}
}

func (h *history) run(steps int) {
	for range steps {
		if h.t.Failed() {
			return
		}
		h.request()
		h.step++
	}
}

// request sends one random request on both sides.
func (h *history) request() {
	h.t.Helper()
	wild := 0
	if h.g.chance(15) {
		wild = 4
	}
	h.g.repeats = h.g.chance(20)
	version, subresource := "v1", ""
	if h.roots["v2"] != nil && h.g.chance(25) {
		version = "v2"
	}
	m := h.managers[version]
	if len(h.live) > 0 && h.g.chance(20) {
		m, subresource = h.managers[version+"/status"], "status"
	}
	from := Tree{"kind": h.w.kind, "apiVersion": h.w.gvk(version).GroupVersion().String()}
	if len(h.live) > 0 {
		converted, err := h.w.convert(h.live, h.w.gvk(version).GroupVersion())
		if err != nil {
			h.t.Fatal(err)
		}
		from = runtime.DeepCopyJSON(converted)
	}
	var ours, theirs outcome
	var what string
	if h.g.chance(50) {
		manager, force, applied := h.g.pick("applier", "other", "third", "kubectl", ""), h.g.chance(50), h.application(from, version, wild)
		what = fmt.Sprintf("apply by %q, force %v: %s", manager, force, text(applied))
		ours, theirs = m.apply(from, applied, manager, force)
	} else {
		manager := h.g.pick("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "ancient-changes")
		obj := h.update(from, version, manager, wild)
		what = fmt.Sprintf("update by %q: %s", manager, text(obj))
		ours, theirs = m.update(from, obj, manager)
	}
	h.clock = h.clock.Add(time.Second)
	settleTimes(ours.obj, h.clock)
	settleTimes(theirs.obj, h.clock)
	if d := disagreement(ours, theirs); d != "" {
		h.t.Errorf("seed %d, step %d, %s %s\nlive %s\n%s\n%s", h.seed, h.step, version, subresource, text(from), what, d)
		return
	}
	switch {
	case ours.err == nil:
		h.counts["success"]++
		h.live = runtime.DeepCopyJSON(ours.obj)
		if meta, ok := h.live["metadata"].(Tree); ok {
			meta["uid"] = "u"
		}
	case apierrors.IsConflict(ours.err):
		h.counts["conflict"]++
	default:
		h.counts["error"]++
	}
}

// application returns an object to apply.
func (h *history) application(from Tree, version string, wild int) Tree {
	root := h.roots[version]
	if len(h.live) == 0 || h.g.chance(60) {
		return h.g.thing(h.w, version, root, wild)
	}
	// The current object with small changes.
	applied := exceptMeta(from, "managedFields", "uid", "annotations")
	for _, part := range parts(root) {
		p := root.Properties[part]
		if h.g.chance(30) {
			delete(applied, part)
		} else if v, ok := applied[part]; ok || h.g.chance(20) {
			applied[part] = h.g.edit(&p, v, wild)
		}
	}
	return applied
}

// update returns an object for an update.
func (h *history) update(from Tree, version, manager string, wild int) Tree {
	root := h.roots[version]
	if len(h.live) == 0 {
		return h.g.thing(h.w, version, root, wild)
	}
	obj := runtime.DeepCopyJSON(from)
	for _, part := range parts(root) {
		p := root.Properties[part]
		if h.g.chance(40) {
			obj[part] = h.g.edit(&p, obj[part], wild)
		}
	}
	meta, ok := obj["metadata"].(Tree)
	if !ok {
		meta = Tree{}
		obj["metadata"] = meta
	}
	annotations, _ := meta["annotations"].(Tree)
	if annotations == nil {
		annotations = Tree{}
	}
	switch {
	case h.g.chance(50):
		annotations[manager] = h.g.pick("x", "y")
	case h.g.chance(20): // as applied by kubectl client-side
		last := exceptMeta(obj, "managedFields", "uid", "annotations")
		annotations[lastAppliedAnnotation] = text(last)
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	if h.tampers {
		h.g.tamper(obj)
	}
	return obj
}
