package fields

import (
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Apply merges an applied object into the live one. The manager becomes an owner of the fields in
// applied. Fields that it applied before, but are not in applied, are removed, unless another
// manager owns them. To create an object, live is the result of New. Apply changes neither
// argument, and the result shares nothing with them except unchanged entries of managedFields.
//
// If applied changes a field that another manager owns, the error is the conflict Status for the
// client. With force, the manager takes over such fields. If nothing changes, the result is live,
// with at most an additional owner.
func (m *Manager) Apply(live, applied Tree, manager string, force bool) (Tree, error) {
	raw, _ := entriesOf(live)
	list, err := decode(raw, m.apiVersion, m.own)
	if err != nil {
		return nil, fmt.Errorf("failed to decode managed fields: %v", err)
	}
	if gvk := kindOf(applied); !m.isOwn(applied) && gvk != m.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", gvk))
	}
	a := application{m, live, applied, list, manager}
	obj, list, found, err := a.run(force)
	if len(found) > 0 && manager == kubectl {
		// kubectl may take over fields that it has applied client-side.
		if found, err = found.notIn(a.appliedByClient()), nil; len(found) == 0 {
			obj, list, found, err = a.run(true)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return nil, found.status()
	}
	if manager == kubectl {
		if err := noteLastApplied(obj, applied); err != nil {
			return nil, err
		}
	}
	list.write(obj)
	return obj, nil
}

// application is one request to apply.
type application struct {
	*Manager
	live, applied Tree
	list          managed // entries of live
	manager       string
}

// run applies. It returns an object without managedFields, and its new entries.
func (a *application) run(force bool) (Tree, managed, conflicts, error) {
	list := slices.Clone(a.list)
	if len(list) == 0 {
		// Before the first apply, existing fields may have no owner.
		empty := a.New()
		empty["apiVersion"], empty["kind"] = a.apiVersion, a.Manager.kind
		var err error
		if list, err = a.track(empty, a.live, nil, "before-first-apply"); err != nil {
			return nil, nil, nil, fmt.Errorf("failed to create manager for existing fields: %v", err)
		}
	}
	if _, found := entriesOf(a.applied); found {
		return nil, nil, nil, apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	config, err := a.typedOf(a.applied, false)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("failed to create typed patch object (%v): %v", describe(a.applied), err)
	}
	live, err := a.typedOf(a.live, true)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("failed to create typed live object (%v): %v", describe(a.live), err)
	}
	converted := views{m: a.Manager, own: live}
	if list, err = a.reconcile(&converted, list); err != nil {
		return nil, nil, nil, err
	}
	set := fieldsOf(config.node, config.tree)
	if reset := a.reset[a.apiVersion]; reset != nil {
		set = recursiveDifference(set, reset)
	}
	id := newIdentity(nameOf(a.manager), a.Subresource, a.apiVersion, true)
	last := entry{identity: id}
	if e := list.find(id); e != nil {
		last = *e
	} else {
		list = append(list, last)
	}
	e := list.find(id)
	e.version, e.fresh = a.apiVersion, true
	e.own(set)

	var w merger
	tree, _ := w.merge(live.node, live.tree, config.tree)
	merged := typed{node: live.node}
	merged.tree, _ = tree.(Tree) // both are maps
	changed := w.changed
	if w.hollow || last.version != a.apiVersion || !includes(set, last.fields) { // otherwise, no applied field is left out
		pruned, err := a.prune(&merged, w.hollow, list, last)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("failed to prune fields: %w", err)
		}
		if pruned {
			changed = !equal(live.tree, merged.tree)
		}
	}
	c := a.newComparisons(live, merged)
	c.old = converted
	list, found, err := a.transfer(c, list, id, force)
	if err != nil || len(found) > 0 {
		return nil, nil, found, err
	}
	list = a.disown(list, id)
	if !changed {
		return withoutEntries(a.live), list, nil, nil
	}
	if e := list.find(id); e != nil {
		e.stamp(a.Now())
	}
	obj := a.Default(withoutEntries(merged.tree))
	dropEntries(obj)
	return obj, list, nil, nil
}

// disown removes from an entry the fields that no manager can own.
func (m *Manager) disown(list managed, id identity) managed {
	e := list.find(id)
	if e == nil {
		return list
	}
	set, changed := differ(e.fields, m.stripped, false, true)
	if len(set) == 0 {
		return list.without(id)
	}
	if changed {
		e.own(set)
	}
	return list
}

// withoutEntries returns a copy of an object without its managedFields.
func withoutEntries(obj Tree) Tree {
	out := make(Tree, len(obj))
	for k, v := range obj {
		meta, ok := v.(map[string]any)
		if k != "metadata" || !ok {
			out[k] = clone(v)
			continue
		}
		fresh := make(Tree, len(meta))
		for k, v := range meta {
			if k != "managedFields" {
				fresh[k] = clone(v)
			}
		}
		out[k] = fresh
	}
	return out
}

// prune removes the fields that the applier owned by its last entry, and that no entry in list
// owns. hollow means that an empty value in the applied object is not empty in the merged one. It
// reports whether it has replaced merged.
func (m *Manager) prune(merged *typed, hollow bool, list managed, last entry) (pruned bool, err error) {
	if len(last.fields) == 0 {
		return false, nil
	}
	if others, ok := list.others(last.identity, m.apiVersion); ok && !hollow && last.version == m.apiVersion {
		if gone, ok := removals(merged.node, merged.tree, last.fields, list.find(last.identity).fields, others); ok {
			*merged = without(*merged, gone)
			return true, nil
		}
	}
	at, err := m.convert(*merged, last.version)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("failed to convert merged object to last applied version: %w", err)
	}
	once, all := withNamed(at.node, last.fields), namedFieldsOf(at)
	left, err := m.restore(at, all, without(at, once), last.version, list)
	if err != nil {
		return false, fmt.Errorf("failed add back owned items: %w", err)
	}
	// Only fields that were once applied are removed: others have no owner, and stay.
	switch left, err = m.convert(left, last.version); {
	case isMissing(err):
	case err != nil:
		return false, fmt.Errorf("failed add back dangling items: failed to convert pruned object to last applied version: %w", err)
	default:
		at = without(at, intersection(difference(all, namedFieldsOf(left)), once))
	}
	*merged, err = m.convert(at, m.apiVersion)
	return true, err
}

// without returns an object without the fields in a set.
func without(obj typed, set fields) typed {
	if len(set) == 0 && !obj.node.atomicMap {
		return obj
	}
	tree, _ := remove(obj.node, obj.tree, set).(map[string]any)
	return typed{tree, obj.node}
}

// restore adds to pruned those fields of merged that are owned in any version; all are the fields
// of merged. It starts with the version of the pruning, so that fields that conversions need are
// present.
func (m *Manager) restore(merged typed, all fields, pruned typed, prunedIn string, list managed) (typed, error) {
	owned := map[string]fields{}
	for i := range list {
		owned[list[i].version] = union(owned[list[i].version], list[i].fields)
	}
	order := slices.SortedFunc(maps.Keys(owned), func(a, b string) int {
		switch {
		case a == prunedIn:
			return -1
		case b == prunedIn:
			return 1
		case a < b:
			return -1
		}
		return 1
	})
	for _, version := range order {
		whole, err := m.convert(merged, version)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return typed{}, fmt.Errorf("failed to convert merged object at version %v: %w", version, err)
		}
		if !one(whole.tree, merged.tree) {
			merged, all = whole, namedFieldsOf(whole)
		}
		rest, err := m.convert(pruned, version)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return typed{}, fmt.Errorf("failed to convert pruned object at version %v: %w", version, err)
		}
		lost := difference(all, namedFieldsOf(rest))
		pruned = without(merged, difference(lost, withNamed(merged.node, owned[version])))
	}
	return pruned, nil
}
