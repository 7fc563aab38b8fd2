package builtin

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A kind is a row of the table: what is special about the kind of the Go type T.
// Names follow from T, and every field but plural and version may be left zero.
type kind[T any] struct {
	version       schema.GroupVersion
	plural        string
	shortNames    []string
	categories    []string
	clusterScoped bool

	// defaults fills in what a client left open. It runs on everything that is
	// decoded, stored objects included, and so it changes nothing the second time.
	defaults func(obj *T)
	// validate judges the object, without its ObjectMeta; old is nil on create.
	validate func(obj, old *T) field.ErrorList

	// status is set where the kind has a status that is written through its own
	// subresource: it is emptied on create, and put back on update.
	status *status[T]
	// resets are dotted paths that clients do not write through the main resource,
	// besides the status.
	resets []string
	// generation lists what metadata.generation counts the changes of, in dotted
	// paths. It starts at 1.
	generation []string
	// pods is the dotted path of the spec of the pods that the kind asks for, if it does.
	pods string
	// prepareCreate and prepareUpdate run after what status and generation do.
	prepareCreate func(obj resource.Tree)
	prepareUpdate func(obj, old resource.Tree)

	subresources []subresource[T]
	scale        *resource.Scale

	table tables.Table[T]
	// selectable are the fields by which objects are selected, besides their names and namespaces. A kind that has some, and no
	// namespaces, cannot be selected by namespace, nor can one that is notByNamespace. unselectable is what Kubernetes says of
	// other fields, if it is nothing usual.
	selectable     []selectable
	notByNamespace bool
	unselectable   string

	// also are other versions that are served, and retired those that Kubernetes no
	// longer serves; each the newest first.
	also, retired []another[T]

	// inert says what this server does not do, yet, with objects of the kind, besides
	// keeping them. Whoever makes one is told so: who is refused nothing by a policy
	// must not believe that he was judged by it.
	inert string
	// absent are the subresources that this server does not have, with the reason.
	absent map[string]string

	// versioned updates must say which resourceVersion they overwrite.
	versioned bool
	// hooks are taken as they are, but for what the fields above say.
	hooks resource.Hooks
}

// status says what is special about a status subresource.
type status[T any] struct {
	validate func(obj, old *T) field.ErrorList
	// keeps are dotted paths, besides the spec, that are not written through it.
	keeps []string
	// prepare runs after the spec is put back.
	prepare func(obj, old resource.Tree)
	// comesWithObject lets who creates an object say its status, too.
	comesWithObject bool
}

// subresource is another view through which a part of the object is written.
type subresource[T any] struct {
	resource.Subresource
	validate func(obj, old *T) field.ErrorList
}

// selectable is a field label and its value.
type selectable struct {
	label string
	value func(obj resource.Tree) string
}

// at selects by the string at a dotted path.
func at(label string) selectable {
	path := strings.Split(label, ".")
	return selectable{label, func(obj resource.Tree) string { return text(obj, path...) }}
}

// row completes the row.
func (k kind[T]) row() row { return row{k.definition(), len(k.retired)} }

func (k kind[T]) definition() *resource.Definition {
	name := k.name()
	subresources := k.subresources
	if k.status != nil {
		subresources = append([]subresource[T]{k.status.subresource()}, subresources...)
	}
	version := &resource.Version{
		Name:       k.version.Version,
		Model:      newModel(k.version.WithKind(name), k.defaults, k.validate, subresources, k.kinds()...),
		Scale:      k.scale,
		Columns:    k.table.Columns,
		Selectable: names(k.selectable),
		Warning:    deprecated[T](k.version.WithKind(name)),

		NotByNamespace: k.notByNamespace || k.clusterScoped && len(k.selectable) > 0,
		Unselectable:   k.unselectable,
	}
	for _, s := range subresources {
		version.Subresources = append(version.Subresources, s.Subresource)
	}
	if k.status != nil {
		version.ResetFields = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	}
	for _, dotted := range k.resets {
		if version.ResetFields == nil {
			version.ResetFields = fieldpath.NewSet()
		}
		version.ResetFields.Insert(fieldpath.MakePathOrDie(toAny(strings.Split(dotted, "."))...))
	}
	if k.table.Cells != nil {
		version.Cells = func(obj resource.Tree, now time.Time) []any { return k.table.Cells(decoded[T](obj), now) }
	}
	if k.table.Conditions != nil {
		version.RowConditions = func(obj resource.Tree) []metav1.TableRowCondition { return k.table.Conditions(decoded[T](obj)) }
	}
	if k.table.Default != nil {
		version.Default = newestDefault(k.table.Default)
	}
	if k.table.Order != nil {
		version.Order = ordered(k.table.Order)
	}
	if len(k.selectable) > 0 {
		version.Fields = func(obj resource.Tree) map[string]string { return values(k.selectable, obj) }
	}
	d := &resource.Definition{
		Group:      k.version.Group,
		Plural:     k.plural,
		Singular:   strings.ToLower(name),
		Kind:       name,
		ListKind:   name + "List",
		ShortNames: k.shortNames,
		Categories: k.categories,
		Namespaced: !k.clusterScoped,
		Versions:   []*resource.Version{version},
		Storage:    version,
		Absent:     k.absent,
		Hooks:      k.hooks,
	}
	for _, v := range slices.Concat(k.also, k.retired) {
		d.Versions = append(d.Versions, v.version(k, version, subresources))
		d.Convert = func(obj resource.Tree, _, to *resource.Version) error { return convert(obj, d.GroupVersion(to)) }
	}
	d.Hooks.PrepareCreate = k.create
	if k.status != nil {
		d.Hooks.PrepareCreate = withZeros[T](k.create)
	}
	d.Hooks.PrepareUpdate = k.update
	d.Hooks.UnconditionalUpdate = !k.versioned
	if k.inert != "" {
		d.Hooks.Warnings = tellsOf(k.inert, k.hooks.Warnings)
	}
	return d
}

// tellsOf adds, on create, a warning of what a server does not do.
func tellsOf(inert string, warnings func(obj, old resource.Tree) []string) func(obj, old resource.Tree) []string {
	return func(obj, old resource.Tree) []string {
		var all []string
		if warnings != nil {
			all = warnings(obj, old)
		}
		if old == nil {
			all = append(all, "kapok: "+inert)
		}
		return all
	}
}

func (k kind[T]) name() string { return reflect.TypeFor[T]().Name() }

// kinds are the kind in all its versions.
func (k kind[T]) kinds() []schema.GroupVersionKind {
	all := []schema.GroupVersionKind{k.version.WithKind(k.name())}
	for _, v := range slices.Concat(k.also, k.retired) {
		all = append(all, v.gv.WithKind(k.name()))
	}
	return all
}

func (k kind[T]) create(obj resource.Tree) {
	k.dropGatedFields(obj)
	if k.status != nil && !k.status.comesWithObject {
		obj["status"] = resource.Tree{}
	}
	if k.generation != nil {
		put(obj, int64(1), "metadata", "generation")
	}
	if k.prepareCreate != nil {
		k.prepareCreate(obj)
	}
}

func (k kind[T]) update(obj, old resource.Tree) {
	k.dropGatedFields(obj)
	if k.status != nil {
		keep(obj, old, "status")
	}
	if k.prepareUpdate != nil {
		k.prepareUpdate(obj, old)
	}
	if k.generation != nil {
		generation, _ := get(old, "metadata", "generation").(int64)
		keep(obj, old, "metadata", "generation")
		if slices.ContainsFunc(k.generation, func(dotted string) bool {
			path := strings.Split(dotted, ".")
			return !reflect.DeepEqual(get(obj, path...), get(old, path...))
		}) {
			put(obj, generation+1, "metadata", "generation")
		}
	}
}

func (k kind[T]) dropGatedFields(obj resource.Tree) {
	if k.pods == "" {
		return
	}
	if spec, ok := get(obj, strings.Split(k.pods, ".")...).(resource.Tree); ok {
		dropGatedFields(spec)
	}
}

// subresource makes the view through which the status is written.
func (s *status[T]) subresource() subresource[T] {
	reset := fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))
	kept := [][]string{{"spec"}}
	for _, dotted := range s.keeps {
		path := strings.Split(dotted, ".")
		kept = append(kept, path)
		reset.Insert(fieldpath.MakePathOrDie(toAny(path)...))
	}
	return subresource[T]{
		Subresource: resource.Subresource{
			Name:        "status",
			ResetFields: reset,
			Prepare: func(obj, old resource.Tree) {
				for _, path := range kept {
					keep(obj, old, path...)
				}
				if s.prepare != nil {
					s.prepare(obj, old)
				}
			},
		},
		validate: s.validate,
	}
}

func names(fields []selectable) []string {
	var labels []string
	for _, f := range fields {
		labels = append(labels, f.label)
	}
	return labels
}

func values(fields []selectable, obj resource.Tree) map[string]string {
	set := make(map[string]string, len(fields))
	for _, f := range fields {
		set[f.label] = f.value(obj)
	}
	return set
}

func toAny(path []string) []any {
	parts := make([]any, len(path))
	for i := range path {
		parts[i] = path[i]
	}
	return parts
}
