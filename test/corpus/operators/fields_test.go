package operators

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// owners has the field managers of both sides for the objects of one version.
type owners struct {
	ours   *fields.Manager
	theirs *managedfields.FieldManager
}

// newFieldManager returns the library's field manager of a version, set up as in kube-apiserver,
// and the types of its schema.
func newFieldManager(v *version) (*managedfields.FieldManager, map[string]*spec.Schema, error) {
	document, err := builder.BuildOpenAPIV3(v.crd, v.Name, builder.Options{StripValueValidation: true, StripNullable: true})
	if err != nil {
		return nil, nil, err
	}
	models := document.Components.Schemas
	types, err := managedfields.NewTypeConverter(models, v.crd.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, nil, err
	}
	var reset map[fieldpath.APIVersion]fieldpath.Filter
	if v.Subresources != nil && v.Subresources.Status != nil {
		reset = fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
			fieldpath.APIVersion(v.gvk().GroupVersion().String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
		})
	}
	m, err := managedfields.NewDefaultCRDFieldManager(types, role{}, role{}, role{}, v.gvk(), v.gvk().GroupVersion(), "", reset)
	return m, models, err
}

func newOwners(v *version) (*owners, error) {
	theirs, models, err := newFieldManager(v)
	if err != nil {
		return nil, err
	}
	kinds, _, err := fields.OfModels(models, v.crd.Spec.PreserveUnknownFields, nil)
	if err != nil {
		return nil, err
	}
	o := fields.Options{Kind: v.gvk(), Type: func(gvk schema.GroupVersionKind) *fields.Type { return kinds[gvk] }}
	if v.Subresources != nil && v.Subresources.Status != nil {
		o.Reset = map[string]*fieldpath.Set{v.gvk().GroupVersion().String(): fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
	}
	ours, err := fields.New(o)
	if err != nil {
		return nil, err
	}
	return &owners{ours, theirs}, nil
}

// A role implements the interfaces that the library needs besides the schema: there is one version,
// and objects are defaulted before.
type role struct{}

func (role) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: tree{}}, nil
}
func (role) Default(runtime.Object)       {}
func (role) Convert(in, out, _ any) error { return errors.New("not called") }
func (role) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (role) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func boxed(obj tree) runtime.Object {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(obj)}
}

func unboxed(obj runtime.Object, err error) (tree, error) {
	if err != nil {
		return nil, err
	}
	return obj.(*unstructured.Unstructured).Object, nil
}

// step runs an update or an apply on both sides, compares the results, and returns them.
func (o *owners) step(live, obj tree, manager string, apply, force bool) (tree, error) {
	var ours, theirs tree
	var err, theirErr error
	if apply {
		ours, err = o.ours.Apply(runtime.DeepCopyJSON(live), runtime.DeepCopyJSON(obj), manager, force)
		theirs, theirErr = unboxed(o.theirs.Apply(boxed(live), boxed(obj), manager, force))
	} else {
		ours, err = o.ours.Update(runtime.DeepCopyJSON(live), runtime.DeepCopyJSON(obj), manager)
		theirs, theirErr = unboxed(o.theirs.Update(boxed(live), boxed(obj), manager))
	}
	if got, want := verdict(err), verdict(theirErr); got != want {
		return nil, fmt.Errorf(" got %s\nwant %s", got, want)
	}
	if err != nil {
		return live, nil
	}
	forgetTimes(ours)
	forgetTimes(theirs)
	if !reflect.DeepEqual(ours, theirs) {
		return nil, fmt.Errorf(" got %s\nwant %s", toJSON(ours), toJSON(theirs))
	}
	return ours, nil
}

// forgetTimes replaces the times of managedFields by a constant.
func forgetTimes(obj tree) {
	metadata, _ := obj["metadata"].(tree)
	entries, _ := metadata["managedFields"].([]any)
	fresh := make([]any, len(entries))
	for i, entry := range entries {
		e := runtime.DeepCopyJSON(entry.(tree)) // it can be shared
		e["time"] = "2020-01-01T00:00:00Z"
		fresh[i] = e
	}
	if entries != nil {
		metadata["managedFields"] = fresh
	}
}

// TestFields has several managers write the objects of the corpus: create, apply, update to another
// object, apply fewer fields, with and without force.
func TestFields(t *testing.T) {
	all := loadItems(t)
	every := 1
	if !*long {
		every = 4
	}
	byKind := map[*engine][]item{}
	for i := 0; i < len(all); i += every {
		byKind[all[i].engine] = append(byKind[all[i].engine], all[i])
	}
	var kinds []*engine
	for e := range byKind {
		kinds = append(kinds, e)
	}
	seed := seeds.Of(t)
	var steps, failed atomic.Int64
	var report sync.Mutex
	parallel(len(kinds), func(n int) {
		e := kinds[n]
		o, err := newOwners(e.version)
		if err != nil {
			t.Errorf("%v: %v", e, err)
			return
		}
		for i, item := range byKind[e] {
			g := newGenerator(seed, uint64(i))
			other := g.resource(e.version)
			if e.ours.Normalise(other, nil) != nil || len(e.ours.Validate(t.Context(), other)) > 0 {
				other = item.normal
			}
			less := runtime.DeepCopyJSON(item.normal)
			if spec, ok := less["spec"].(tree); ok {
				for _, k := range slices.Sorted(maps.Keys(spec)) {
					if g.chance(50) {
						delete(spec, k)
					}
				}
			}
			live := tree{}
			for _, s := range []struct {
				obj          tree
				manager      string
				apply, force bool
			}{
				{item.normal, "creator", false, false},
				{item.normal, "applier", true, false},
				{other, "updater", false, false},
				{less, "applier", true, false},
				{less, "applier", true, true},
				{other, "second", true, true},
			} {
				obj := withNameOf(item.normal, s.obj)
				next, err := o.step(live, obj, s.manager, s.apply, s.force)
				steps.Add(1)
				if err != nil {
					if failed.Add(1) <= 10 {
						report.Lock()
						t.Errorf("%v, %s (apply %v, force %v):\n%v\nof %s\nover %s", e, s.manager, s.apply, s.force, err, toJSON(obj), toJSON(live))
						report.Unlock()
					}
					break
				}
				live = next
			}
		}
	})
	t.Logf("%d steps of managers on objects of %d versions, %d differences", steps.Load(), len(kinds), failed.Load())
}

// withNameOf returns a copy of obj with the name of another object and without the fields that the
// server sets.
func withNameOf(of, obj tree) tree {
	obj = runtime.DeepCopyJSON(obj)
	metadata, _ := obj["metadata"].(tree)
	if metadata == nil {
		metadata = tree{}
		obj["metadata"] = metadata
	}
	if from, ok := of["metadata"].(tree); ok {
		metadata["name"] = from["name"]
	}
	delete(metadata, "managedFields")
	return obj
}

// BenchmarkFields has one manager update, and another one apply, existing objects of the corpus.
func BenchmarkFields(b *testing.B) {
	type prepared struct {
		*owners
		live, changed, applied tree
	}
	var all []prepared
	byKind := map[*engine]*owners{}
	for i, item := range loadItems(b) {
		if i%10 != 0 {
			continue
		}
		o := byKind[item.engine]
		if o == nil {
			var err error
			if o, err = newOwners(item.version); err != nil {
				b.Fatal(err)
			}
			byKind[item.engine] = o
		}
		p := prepared{owners: o, applied: withNameOf(item.normal, item.normal)}
		p.changed = withNameOf(item.normal, item.normal)
		p.changed["metadata"].(tree)["labels"] = tree{"changed": "yes"}
		live, err := o.step(tree{}, p.applied, "creator", false, false)
		if err == nil {
			live, err = o.step(live, p.applied, "applier", true, true)
		}
		if err != nil || live["metadata"] == nil {
			continue // TestFields reports it, or both sides reject it
		}
		p.live = live
		all = append(all, p)
	}
	for _, test := range []struct {
		name string
		do   func(p prepared, live, obj tree) error
		obj  func(p prepared) tree
	}{
		{"update/by=kapok", func(p prepared, live, obj tree) error {
			_, err := p.ours.Update(live, obj, "updater")
			return err
		}, func(p prepared) tree { return p.changed }},
		{"update/by=apimachinery", func(p prepared, live, obj tree) error {
			_, err := p.theirs.Update(&unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: obj}, "updater")
			return err
		}, func(p prepared) tree { return p.changed }},
		{"apply/by=kapok", func(p prepared, live, obj tree) error {
			_, err := p.ours.Apply(live, obj, "applier", true)
			return err
		}, func(p prepared) tree { return p.changed }},
		{"apply/by=apimachinery", func(p prepared, live, obj tree) error {
			_, err := p.theirs.Apply(&unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: obj}, "applier", true)
			return err
		}, func(p prepared) tree { return p.changed }},
	} {
		b.Run(test.name, func(b *testing.B) {
			live, obj := make([]tree, len(all)), make([]tree, len(all))
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += len(all) {
				b.StopTimer()
				for i, p := range all {
					live[i], obj[i] = runtime.DeepCopyJSON(p.live), runtime.DeepCopyJSON(test.obj(p))
					if test.name[0] == 'u' {
						obj[i]["metadata"].(tree)["managedFields"] = runtime.DeepCopyJSONValue(p.live["metadata"].(tree)["managedFields"])
					}
				}
				b.StartTimer()
				for i := range min(len(all), b.N-n) {
					if err := test.do(all[i], live[i], obj[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
