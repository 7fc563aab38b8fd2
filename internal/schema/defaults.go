package schema

import "errors"

// step is a step from a value to one below it: to a property or, if item is set, to the only item
// of a list.
type step struct {
	key  string
	item bool
}

// pruneDefaults removes fields that the schema does not specify from all defaults in the subtree of
// n, which is at the given place. Kubernetes does so when it starts to serve a schema: it sets each
// default alone in an otherwise empty object, and coerces and prunes that from its root, because
// the result depends on the nodes above. It keeps nulls.
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

// plain reports whether nothing can be removed from a default: a scalar that is not part of a
// resource's metadata.
func (p *Program) plain(v any, place []step) bool {
	return isScalar(v) && !p.root.embeds && len(place) > 0 && !isMeta(place[0].key)
}

// surround returns a tree that contains only v, at the given place.
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

// extract returns the value at the given place, or nil.
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

// completeDefaults sets the defaults below the defaults in the subtree of n, from the leaves up, so
// that a default only needs to be copied.
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
