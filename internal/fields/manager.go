package fields

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A Tree is the decoded JSON of an object: map[string]any, []any, string, bool, int64, float64 and
// nil.
type Tree = map[string]any

// Options are the settings of a Manager. Kind and Type are required.
type Options struct {
	// Kind is the kind of the objects in requests, in their version.
	Kind schema.GroupVersionKind
	// Subresource is the subresource of the requests; "" for the main resource.
	Subresource string
	// Type returns the type of a kind in any version; nil if it does not exist, or no longer.
	Type func(schema.GroupVersionKind) *Type
	// Convert returns an object in another version, and must not modify obj. An error for which
	// runtime.IsNotRegisteredError is true means that the version no longer exists; its fields then
	// have no owners. Nil if there is only one version.
	Convert func(obj Tree, to schema.GroupVersion) (Tree, error)
	// New returns the object that a live one without owners is compared with. Default: an empty
	// object.
	New func() Tree
	// Default sets defaults in an applied object, which it may change and return. Default: no
	// defaults.
	Default func(obj Tree) Tree
	// Reset contains, by apiVersion, the fields that no manager can own through this resource.
	Reset map[string]*fieldpath.Set
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
}

// A Manager maintains the managedFields of the objects of one version of a kind that are written
// through one resource or subresource. It is immutable, and safe for concurrent use.
type Manager struct {
	Options
	apiVersion, kind string
	own              *node // the type of Kind
	reset            map[string]fields
	stripped         fields
}

// New returns a Manager.
func New(o Options) (*Manager, error) {
	if o.New == nil {
		o.New = func() Tree { return Tree{} }
	}
	if o.Default == nil {
		o.Default = func(obj Tree) Tree { return obj }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Type == nil {
		return nil, errors.New("options without a Type")
	}
	m := &Manager{Options: o, stripped: unmanaged()}
	m.apiVersion, m.kind = o.Kind.ToAPIVersionAndKind()
	t := o.Type(o.Kind)
	if t == nil {
		return nil, &missingType{o.Kind}
	}
	m.own = t.root
	for version, set := range o.Reset {
		f, err := fieldsFrom(set)
		if err != nil {
			return nil, fmt.Errorf("reset fields of %s: %w", version, err)
		}
		if m.reset == nil {
			m.reset = map[string]fields{}
		}
		m.reset[version] = f
	}
	return m, nil
}

// unmanaged returns the fields that every object has and no manager owns.
func unmanaged() fields {
	meta := fields{self: fields{}}
	for _, name := range []string{"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion"} {
		meta["f:"+name] = fields{}
	}
	return fields{"f:apiVersion": fields{}, "f:kind": fields{}, "f:metadata": meta}
}

// Update records the changes of obj against live, which is empty on create, in obj's managedFields,
// and returns obj. The manager becomes the only owner of changed fields. Unchanged entries are
// shared with the object that contains them.
//
// The managedFields in obj replace those of live, unless the request is for a subresource, or they
// are missing or invalid. An empty list, or a list of one empty entry, drops all of them. Existing
// objects without managedFields get none.
//
// An error means that one of the objects does not fit its schema or cannot be converted; obj then
// has no managedFields.
func (m *Manager) Update(live, obj Tree, manager string) (Tree, error) {
	list := m.entries(live, obj)
	dropEntries(obj)
	if len(list) > 0 || uidOf(live) == "" {
		var err error
		if list, err = m.track(live, obj, list, manager); err != nil {
			return nil, err
		}
	}
	list.write(obj)
	return obj, nil
}

// entries returns the initial entries of an update.
func (m *Manager) entries(live, obj Tree) managed {
	if m.Subresource == "" {
		raw, found := entriesOf(obj)
		if isReset(raw, found) {
			return nil
		}
		if list, err := decode(raw, m.apiVersion, m.own); err == nil && len(list) > 0 {
			return list
		}
	}
	raw, _ := entriesOf(live)
	list, err := decode(raw, m.apiVersion, m.own)
	if err != nil {
		return nil // losing owners is better than rejecting all updates
	}
	return list
}

func uidOf(obj Tree) string {
	meta, _ := obj["metadata"].(map[string]any)
	uid, _ := meta["uid"].(string)
	return uid
}

// track makes the manager the owner of the fields in which obj differs from live, and no other.
func (m *Manager) track(live, obj Tree, list managed, manager string) (managed, error) {
	id := newIdentity(nameOf(manager), m.Subresource, m.apiVersion, false)
	c, err := m.compareOwn(live, obj)
	if err != nil {
		return nil, err
	}
	if list, err = m.reconcile(&c.old, list); err == nil {
		list, _, err = m.transfer(c, list, identity{}, true)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to update ManagedFields (%v): %v", describe(obj), err)
	}
	if set := difference(c.own.set, m.stripped); len(set) > 0 {
		e := list.find(id)
		if e == nil {
			list = append(list, entry{identity: id, version: m.apiVersion, fresh: true})
			e = &list[len(list)-1]
		}
		e.own(union(e.fields, set))
		e.stamp(m.Now())
	}
	return list.capped(), nil
}

// isOwn reports whether an object is of the kind and version of the Manager.
func (m *Manager) isOwn(obj Tree) bool {
	return obj["apiVersion"] == m.apiVersion && obj["kind"] == m.kind
}

func nameOf(manager string) string {
	if manager == "" {
		return "unknown"
	}
	return manager
}

// reconcile adapts the sets of all entries to the schemas of their versions. It drops entries of
// versions that no longer exist.
func (m *Manager) reconcile(live *views, list managed) (managed, error) {
	out := list[:0]
	for _, e := range list {
		at, err := live.in(e.version)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !(e.fitting && at.node == m.own) && !isSettled(at.node, e.fields, true) {
			e.own(reconcile(at.node, e.fields))
		}
		out = append(out, e)
	}
	return out, nil
}

// transfer removes the changed fields from all entries except that of keep. Unless force is set, it
// returns a conflict if another manager owns a field that was set.
func (m *Manager) transfer(c *comparisons, list managed, keep identity, force bool) (managed, conflicts, error) {
	if _, err := c.in(m.apiVersion); err != nil {
		return nil, nil, err
	}
	var found conflicts
	room := maxConflictElements
	out := list[:0]
	for _, e := range list {
		if e.identity != keep {
			c, err := c.in(e.version)
			if isMissing(err) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			if !force && intersects(e.fields, c.set) {
				found = append(found, newConflicts(e, intersection(e.fields, c.set), &room)...)
			}
			if left, changed := differ(e.fields, c.touched, false, true); changed {
				e.own(left)
			}
		}
		if len(e.fields) > 0 {
			out = append(out, e)
		}
	}
	if len(found) > 0 {
		return nil, found, nil
	}
	return out, nil, nil
}
