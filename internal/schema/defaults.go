package schema

import "errors"

// step leads from a value to one below it: to a property or, if item is set, to the only item of a list.
type step struct {
	key  string
	item bool
}

// pruneDefaults removes from all defaults in the subtree of n, which lies at the given place, what the schema does not
// specify. Kubernetes does this when it begins to serve a schema: each default is set alone into an otherwise empty object,
// which is coerced and pruned from its root, because what is removed depends on the nodes above. Nulls stay.
func (p *Program) pruneDefaults(n *node, place []step) error {
	if n.fallback != nil && !p.plain(n.fallback, place) {
		root, ok := surround(n.fallback, place).(map[string]any)
		if !ok {
			return errors.New("the default of the root must be an object")
		}
		w := coercer{drop: true, root: true}
		if err := w.run(root, p.root); err != nil {
			return err
		}
		prune := pruner{nulls: true}
		prune.object(root, p.root, modeOf(p.root), nil)
		n.fallback = extract(root, place)
	}
	if !n.fills {
		return nil
	}
	place = place[:len(place):len(place)]
	for _, f := range n.fields {
		if err := p.pruneDefaults(f.node, append(place, step{key: f.name})); err != nil {
			return err
		}
	}
	if n.additional != nil {
		if err := p.pruneDefaults(n.additional, append(place, step{key: "*"})); err != nil {
			return err
		}
	}
	if n.items != nil {
		return p.pruneDefaults(n.items, append(place, step{item: true}))
	}
	return nil
}

// plain tells defaults of which nothing can be removed: scalars that are not part of a resource's metadata.
func (p *Program) plain(v any, place []step) bool {
	return isScalar(v) && !p.root.embeds && len(place) > 0 && !isMeta(place[0].key)
}

// surround returns a tree that holds v, and v alone, at the given place.
func surround(v any, place []step) any {
	for i := len(place) - 1; i >= 0; i-- {
		if place[i].item {
			v = []any{v}
		} else {
			v = map[string]any{place[i].key: v}
		}
	}
	return v
}

// extract returns what is at the given place, or nil.
func extract(v any, place []step) any {
	for _, s := range place {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[s.key]
		case []any:
			if len(parent) == 0 {
				return nil
			}
			v = parent[0]
		default:
			return nil
		}
	}
	return v
}

// completeDefaults fills the defaults in the subtree of n with the defaults of what they hold, from the leaves up, so that
// setting a default is no more than copying it.
func completeDefaults(n *node) {
	if n.fills {
		for _, f := range n.fields {
			completeDefaults(f.node)
		}
		if n.additional != nil {
			completeDefaults(n.additional)
		}
		if n.items != nil {
			completeDefaults(n.items)
		}
	}
	if n.fallback != nil {
		fill(n.fallback, n)
	}
}
