package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freeModel accepts any object.
type freeModel struct{}

func (freeModel) Fingerprint() uint64 { return 7 }

func (freeModel) Decode(data []byte, _ *[]error) (resource.Tree, error) {
	var obj resource.Tree
	return obj, json.UnmarshalCaseSensitivePreserveInts(data, &obj)
}

func (freeModel) Normalise(obj resource.Tree, _ *[]error) (resource.Tree, error) { return obj, nil }
func (freeModel) Prune(obj resource.Tree) (resource.Tree, error)                 { return obj, nil }

func (freeModel) Validate(_ context.Context, _, _ resource.Tree, _ string) field.ErrorList {
	return nil
}
func (freeModel) PatchMeta() strategicpatch.LookupPatchMeta { return nil }
func (freeModel) New() runtime.Object                       { return nil }

func (freeModel) FieldTypes() (func(schema.GroupVersionKind) *fields.Type, error) {
	return func(schema.GroupVersionKind) *fields.Type { return fields.Deduced() }, nil
}

// kind returns a custom kind of the tests: Item is namespaced, Root is cluster-scoped.
func kind(name string, namespaced bool) *resource.Definition {
	v := &resource.Version{Name: "v1", Model: freeModel{}}
	plural := strings.ToLower(name) + "s"
	return &resource.Definition{
		Group: "example.com", Plural: plural, Singular: strings.ToLower(name), Kind: name, ListKind: name + "List",
		Namespaced: namespaced, Custom: true, Versions: []*resource.Version{v}, Storage: v,
	}
}

// A server is a store with the built-in kinds, Items and Roots, the namespaces n and m, and a
// reaper.
type server struct {
	t      testing.TB
	store  *resource.Store
	reaper *Reaper
	items  *resource.Definition
	roots  *resource.Definition
}

func newServer(t testing.TB) *server {
	t.Helper()
	j := memory.New()
	st, err := state.Open(context.Background(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, items: kind("Item", true), roots: kind("Root", false)}
	s.store = resource.NewStore(st, resource.NewRegistry(append(kinds.Definitions(), s.items, s.roots)...))
	s.reaper = Start(context.Background(), s.store, Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		s.reaper.Close()
		j.Close()
	})
	for _, name := range []string{"n", "m"} {
		s.mustCreate("Namespace", "", name, nil)
	}
	return s
}

func (s *server) definition(kind string) *resource.Definition {
	s.t.Helper()
	for _, d := range s.store.Registry().Load().All() {
		if d.Kind == kind {
			return d
		}
	}
	s.t.Fatalf("no kind %s", kind)
	return nil
}

func (s *server) mustCreate(kind, namespace, name string, edit func(obj resource.Tree)) *object.Object {
	s.t.Helper()
	d := s.definition(kind)
	obj := resource.Tree{
		"apiVersion": d.APIVersion(d.Storage), "kind": kind, "metadata": resource.Tree{"name": name, "namespace": namespace},
	}
	if namespace == "" {
		delete(obj["metadata"].(resource.Tree), "namespace")
	}
	if edit != nil {
		edit(obj)
	}
	data, err := object.AppendJSON(nil, obj)
	if err != nil {
		s.t.Fatal(err)
	}
	r := request(d, object.Key{Namespace: namespace}, "", nil)
	result, err := s.store.Create(context.Background(), r, resource.Body{Data: data})
	if err != nil {
		s.t.Fatal(err)
	}
	return result.Object
}

func (s *server) delete(d *resource.Definition, namespace, name, policy string) error {
	options := &metav1.DeleteOptions{}
	if policy != "" {
		p := metav1.DeletionPropagation(policy)
		options.PropagationPolicy = &p
	}
	_, err := s.store.Delete(context.Background(), request(d, d.Key(namespace, name), "", nil), options)
	return err
}

func (s *server) patch(d *resource.Definition, namespace, name, data string) error {
	_, err := s.store.Patch(context.Background(), request(d, d.Key(namespace, name), "", nil), resource.Patch{Type: types.MergePatchType, Data: []byte(data)})
	return err
}

// show formats objects with their finalizers and owners.
func (s *server) show(definitions ...*resource.Definition) string {
	var b strings.Builder
	for _, d := range definitions {
		for o := range s.store.State().Snapshot(d.GroupResource()).All("") {
			fmt.Fprint(&b, label(d, o.Key))
			if o.Meta.Deleting() {
				b.WriteString(" deleting")
			}
			finalizers := slices.Clone(o.Meta.Finalizers)
			slices.Sort(finalizers)
			if len(finalizers) > 0 {
				fmt.Fprintf(&b, " finalizers=%s", strings.Join(finalizers, ","))
			}
			for _, ref := range o.Meta.Owners {
				fmt.Fprintf(&b, " owner=%s", ref.Name)
				if ref.BlockOwnerDeletion {
					b.WriteString("!")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func label(d *resource.Definition, key object.Key) string {
	if key.Namespace == "" {
		return d.Kind + "/" + key.Name
	}
	return key.Namespace + "/" + key.Name
}

func jsonOf(v any) string {
	data, err := object.AppendJSON(nil, v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
