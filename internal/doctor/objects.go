package doctor

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ctxEvery is the number of objects between two checks of the context.
const ctxEvery = 256

// objects examines every object and the order of their index.
func (e *examination) objects() error {
	e.revision, e.tables = e.state.All()
	e.report.Revision = e.revision
	for _, table := range e.tables {
		e.report.Objects += table.Len()
		if err := e.table(table); err != nil {
			return err
		}
	}
	return nil
}

// table examines the objects of one resource.
func (e *examination) table(table state.Snapshot) error {
	var last *object.Object
	revisions := make([]object.Revision, 0, table.Len())
	for o := range table.All("") {
		if len(revisions)%ctxEvery == 0 && e.ctx.Err() != nil {
			return e.ctx.Err()
		}
		if last != nil {
			if o.Key.Resource != last.Key.Resource {
				e.problem(o.Key, o.Revision, "is stored among the objects of %s", last.Key.Resource)
			}
			if !last.Key.Less(o.Key) {
				e.problem(o.Key, o.Revision, "is out of order in the index: it follows %s", last.Key)
			}
		}
		if table.Get(o.Key.Namespace, o.Key.Name) != o {
			e.problem(o.Key, o.Revision, "is in the index, but a lookup does not find it")
		}
		if o.Revision < 1 || o.Revision > e.revision {
			e.problem(o.Key, o.Revision, "its revision is invalid: the store is at %d", e.revision)
		}
		e.object(o)
		last = o
		revisions = append(revisions, o.Revision)
	}
	slices.Sort(revisions)
	for i := 1; i < len(revisions); i++ {
		if revisions[i] == revisions[i-1] {
			e.problem(object.Key{Resource: last.Key.Resource}, revisions[i], "two objects have this revision")
		}
	}
	return nil
}

// object examines one object: its bytes are canonical, and match its key and its metadata.
func (e *examination) object(o *object.Object) {
	tree, err := o.Tree()
	if err != nil {
		e.problem(object.Key{Resource: o.Key.Resource}, o.Revision, "%v", err)
		return
	}
	if o.Key.Resource == (schema.GroupResource{Resource: "ranges"}) {
		return // allocations of services have the form of kube-apiserver, without a name and a uid
	}
	metadata, _ := tree["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	if name != o.Key.Name || namespace != o.Key.Namespace {
		e.problem(o.Key, o.Revision, "has the name %q and the namespace %q in its metadata", name, namespace)
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if value, _ := tree[field].(string); value == "" {
			e.problem(o.Key, o.Revision, "has no %s", field)
		}
	}
	if uid, _ := metadata["uid"].(string); uid == "" {
		e.problem(o.Key, o.Revision, "has no uid")
	}
	fresh, err := object.New(o.Key, tree, o.Schema, o.Written)
	switch {
	case err != nil:
		e.problem(o.Key, o.Revision, "%v", err)
	case !bytes.Equal(fresh.Raw, o.Raw):
		e.problem(o.Key, o.Revision, "is not stored as canonical JSON")
	case !reflect.DeepEqual(fresh.Meta, o.Meta):
		e.problem(o.Key, o.Revision, "the indexed metadata differs from that of the object")
	case !bytes.Equal(fresh.Stored().AppendTo(nil, 1), o.Stored().AppendTo(nil, 1)):
		e.problem(o.Key, o.Revision, "the recorded position of its resourceVersion is wrong")
	}
}
