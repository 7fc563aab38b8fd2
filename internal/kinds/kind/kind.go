package kind

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A Kind is a row of the table: the particularities of the kind whose objects are of the Go type
// that P points to. Names follow from that type; every field except Plural and Version may be zero.
//
// The parameter is the pointer, not the struct, because Go compiles generic code once for each
// underlying struct type, but once for all pointers: with structs, the definitions of a hundred
// kinds are several megabytes of the binary.
type Kind[P runtime.Object] struct {
	Version       schema.GroupVersion
	Plural        string
	ShortNames    []string
	Categories    []string
	ClusterScoped bool
	// StoredAt is the prefix of the objects in the etcd of kube-apiserver. Default: Plural.
	StoredAt string

	// Defaults fills in omitted fields. It runs on every decoded object, stored ones included, and
	// must be idempotent.
	Defaults func(obj P)
	// Filled kinds additionally get the defaults of all nested types, after Defaults.
	Filled bool
	// Validate returns the errors of the object, except those of its ObjectMeta. old is nil on
	// create.
	Validate func(obj, old P) field.ErrorList
	// ValidateContext replaces Validate for kinds with expressions, whose validation takes long. Once
	// the context has ended, it returns early, and its errors are not used.
	ValidateContext func(ctx context.Context, obj, old P) field.ErrorList

	// Status is set for kinds with a status subresource. Create clears the status; updates of the
	// main resource keep the old one.
	Status *Status[P]
	// Resets are dotted paths, besides the status, that writes to the main resource do not change.
	Resets []string
	// Generation lists the dotted paths whose changes increment metadata.generation, which starts
	// at 1. Nil means no generation.
	Generation []string
	// Pods is the dotted path of the pod spec in the object, "" if it has none.
	Pods string
	// PrepareCreate and PrepareUpdate run after the changes for Status and Generation.
	PrepareCreate func(obj resource.Tree)
	PrepareUpdate func(obj, old resource.Tree)

	Subresources []Subresource[P]
	Scale        *resource.Scale
	Connections  []resource.Connection

	Table Table[P]
	// Selectable are the field labels by which objects are selected, besides name and namespace.
	// Cluster-scoped kinds with such fields, and those with NotByNamespace, reject selection by
	// namespace. Unselectable is Kubernetes' message for other fields, "" for the usual one.
	Selectable     []Selectable
	NotByNamespace bool
	Unselectable   string

	// Also are further served versions, Retired those that Kubernetes no longer serves. Both have
	// the newest first.
	Also, Retired []Another[P]

	// Versioned makes updates without a resourceVersion fail.
	Versioned bool
	// Strategy and Deletion go into the definition, except for what the fields above determine.
	Strategy resource.Strategy
	Deletion resource.Deletion
}

// Status declares the particularities of a status subresource.
type Status[P runtime.Object] struct {
	Validate func(obj, old P) field.ErrorList
	// Keeps are dotted paths, besides the spec, that writes to the status do not change.
	Keeps []string
	// Prepare runs after the spec and Keeps have been restored.
	Prepare func(obj, old resource.Tree)
	// ComesWithObject keeps the status that a create sends.
	ComesWithObject bool
}

// Subresource is a subresource that writes a part of the object.
type Subresource[P runtime.Object] struct {
	resource.Subresource
	// Validate replaces the validation of the main resource.
	Validate func(obj, old P) field.ErrorList
	// Unvalidated is set if only the server writes by the subresource, and what it writes is valid.
	Unvalidated bool
}

// Selectable is a field label and the function that returns its value.
type Selectable struct {
	Label string
	Value func(obj resource.Tree) string
	Reads []string // the dotted paths that Value reads; default: the label
}

// At returns the field whose value is the string at a dotted path, which is its label.
func At(label string) Selectable {
	path := strings.Split(label, ".")
	return Selectable{Label: label, Value: func(obj resource.Tree) string { return Text(obj, path...) }}
}

// A Row builds a definition once the versions of all kinds are known.
type Row struct {
	build   func(all Versioning) *resource.Definition
	Fixed   *resource.Definition // used instead of build by kinds with a single version
	Retired int                  // number of retired versions, which are the last ones
}

// Definition returns the definition of the row.
func (r Row) Definition(all Versioning) *resource.Definition {
	if r.Fixed != nil {
		return r.Fixed
	}
	return r.build(all)
}

// Row returns the row of the kind.
func (k Kind[P]) Row() Row { return Row{build: k.Definition, Retired: len(k.Retired)} }

// RowWith returns the row of the kind, which complete changes first with the versions of all kinds.
func (k Kind[P]) RowWith(complete func(k *Kind[P], all Versioning)) Row {
	return Row{Retired: len(k.Retired), build: func(all Versioning) *resource.Definition {
		k := k
		complete(&k, all)
		return k.Definition(all)
	}}
}

// Definition builds the definition of the kind, in all versions that all knows.
func (k Kind[P]) Definition(all Versioning) *resource.Definition {
	if own := k.Defaults; k.Filled {
		k.Defaults = func(obj P) {
			if own != nil {
				own(obj)
			}
			all.Fill(obj)
		}
	}
	name := k.Name()
	subresources := k.Subresources
	if k.Status != nil {
		subresources = append([]Subresource[P]{k.Status.subresource()}, subresources...)
	}
	version := &resource.Version{
		Name:        k.Version.Version,
		Model:       NewModel(k.Version.WithKind(name), k.Defaults, validatorsOf(k, subresources), k.kinds()...),
		Scale:       k.Scale,
		Connections: k.Connections,
		Columns:     k.Table.Columns,
		Selectable:  Names(k.Selectable),
		Warning:     deprecated[P](k.Version.WithKind(name)),

		NotByNamespace: k.NotByNamespace || k.ClusterScoped && len(k.Selectable) > 0,
		Unselectable:   k.Unselectable,
	}
	for _, s := range subresources {
		version.Subresources = append(version.Subresources, s.Subresource)
	}
	if k.Status != nil {
		version.ResetFields = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	}
	for _, dotted := range k.Resets {
		if version.ResetFields == nil {
			version.ResetFields = fieldpath.NewSet()
		}
		version.ResetFields.Insert(fieldpath.MakePathOrDie(ToAny(strings.Split(dotted, "."))...))
	}
	if k.Table.Cells != nil {
		version.Cells = func(obj resource.Tree, now time.Time) []any { return k.Table.Cells(decoded[P](obj), now) }
	}
	if k.Table.Conditions != nil {
		version.RowConditions = func(obj resource.Tree) []metav1.TableRowCondition { return k.Table.Conditions(decoded[P](obj)) }
	}
	if k.Table.Default != nil {
		version.Default = newestDefault(k.Table.Default)
	}
	if k.Table.Order != nil {
		version.Order = ordered(k.Table.Order)
	}
	if len(k.Selectable) > 0 {
		version.Fields = func(obj resource.Tree) map[string]string { return Values(k.Selectable, obj) }
		version.FieldPaths = Paths(k.Selectable)
	}
	d := &resource.Definition{
		Group:      k.Version.Group,
		Plural:     k.Plural,
		Singular:   strings.ToLower(name),
		Kind:       name,
		ListKind:   name + "List",
		ShortNames: k.ShortNames,
		Categories: k.Categories,
		Namespaced: !k.ClusterScoped,
		StoredAt:   cmp.Or(k.StoredAt, k.Plural),
		Versions:   []*resource.Version{version},
		Storage:    version,
		Strategy:   k.Strategy,
		Deletion:   k.Deletion,
	}
	for _, v := range slices.Concat(k.Also, k.Retired) {
		d.Versions = append(d.Versions, v.Version(k, all, version, subresources))
		d.Convert = func(obj resource.Tree, _, to *resource.Version) error { return all.Change(obj, d.GroupVersion(to)) }
	}
	d.Strategy.PrepareCreate = k.create
	if k.Status != nil {
		d.Strategy.PrepareCreate = withZeros[P](k.create)
	}
	d.Strategy.PrepareUpdate = k.update
	d.Strategy.UnconditionalUpdate = !k.Versioned
	return d
}

// Name returns the name of the kind, which is that of its Go type.
func (k Kind[P]) Name() string { return reflect.TypeFor[P]().Elem().Name() }

// kinds returns the kind in all its versions.
func (k Kind[P]) kinds() []schema.GroupVersionKind {
	all := []schema.GroupVersionKind{k.Version.WithKind(k.Name())}
	for _, v := range slices.Concat(k.Also, k.Retired) {
		all = append(all, v.Gv.WithKind(k.Name()))
	}
	return all
}

func (k Kind[P]) create(obj resource.Tree) {
	k.dropGatedFields(obj)
	if k.Status != nil && !k.Status.ComesWithObject {
		obj["status"] = resource.Tree{}
	}
	if k.Generation != nil {
		Put(obj, int64(1), "metadata", "generation")
	}
	if k.PrepareCreate != nil {
		k.PrepareCreate(obj)
	}
}

func (k Kind[P]) update(obj, old resource.Tree) {
	k.dropGatedFields(obj)
	if k.Status != nil {
		Keep(obj, old, "status")
	}
	if k.PrepareUpdate != nil {
		k.PrepareUpdate(obj, old)
	}
	if k.Generation != nil {
		generation, _ := Get(old, "metadata", "generation").(int64)
		Keep(obj, old, "metadata", "generation")
		if slices.ContainsFunc(k.Generation, func(dotted string) bool {
			path := strings.Split(dotted, ".")
			return !reflect.DeepEqual(Get(obj, path...), Get(old, path...))
		}) {
			Put(obj, generation+1, "metadata", "generation")
		}
	}
}

func (k Kind[P]) dropGatedFields(obj resource.Tree) {
	if k.Pods == "" {
		return
	}
	if spec, ok := Get(obj, strings.Split(k.Pods, ".")...).(resource.Tree); ok {
		DropGatedFields(spec)
	}
}

// subresource returns the status subresource.
func (s *Status[P]) subresource() Subresource[P] {
	reset := fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))
	kept := [][]string{{"spec"}}
	for _, dotted := range s.Keeps {
		path := strings.Split(dotted, ".")
		kept = append(kept, path)
		reset.Insert(fieldpath.MakePathOrDie(ToAny(path)...))
	}
	return Subresource[P]{
		Subresource: resource.Subresource{
			Name:        "status",
			ResetFields: reset,
			Prepare: func(obj, old resource.Tree) {
				for _, path := range kept {
					Keep(obj, old, path...)
				}
				if s.Prepare != nil {
					s.Prepare(obj, old)
				}
			},
		},
		Validate: s.Validate,
	}
}

// Names returns the labels of selectable fields.
func Names(fields []Selectable) []string {
	var labels []string
	for _, f := range fields {
		labels = append(labels, f.Label)
	}
	return labels
}

// Paths returns the paths that the functions of selectable fields read.
func Paths(fields []Selectable) object.FieldPaths {
	var all []string
	for _, f := range fields {
		if f.Reads == nil {
			f.Reads = []string{f.Label}
		}
		all = append(all, f.Reads...)
	}
	return object.FieldPathsOf(all...)
}

// Values returns the values of an object's selectable fields by label.
func Values(fields []Selectable, obj resource.Tree) map[string]string {
	set := make(map[string]string, len(fields))
	for _, f := range fields {
		set[f.Label] = f.Value(obj)
	}
	return set
}

// ToAny returns a path as the arguments of fieldpath.MakePath.
func ToAny(path []string) []any {
	parts := make([]any, len(path))
	for i := range path {
		parts[i] = path[i]
	}
	return parts
}
