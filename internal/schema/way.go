package schema

// way contains the places from the root of the object to the current value.
type way []place

// place is a value on the way, and the step to it from the previous place: a key, or an item of a
// list.
type place struct {
	value any
	key   string
	item  bool

	// The correlation with the old value is computed on first use: for most values it is not
	// needed.
	old   *correlation
	known bool
}

// unchanged reports whether an error about the last value is excused because the value is
// unchanged; if it does not correlate, the nearest enclosing value that does decides. The result is
// cached in the correlation, for all values that depend on it.
func (w way) unchanged() bool {
	for i := len(w) - 1; i >= 0; i-- {
		if old := w.correlation(i); old != nil {
			return old.unchanged(w[i].value)
		}
		if i == 1 && rootsOwn(w[i].key) {
			return false
		}
	}
	return false
}

// correlation returns the correlation of a place; nil if there is none.
func (w way) correlation(i int) *correlation {
	p := &w[i]
	if !p.known {
		p.known = true
		if up := w.correlation(i - 1); p.item {
			p.old = up.item(p.value)
		} else {
			p.old = up.property(p.key)
		}
	}
	return p.old
}

// start adds the root. old is nil if there is no old object.
func (w *way) start(root *node, obj, old map[string]any) {
	first := place{value: obj, known: true}
	if old != nil {
		first.old = &correlation{node: root, old: old, root: true}
	}
	*w = append(make(way, 0, 8), first)
}

// apart marks that the last value, and all below it, do not correlate, until the caller restores
// the returned place.
func (w way) apart() (back place) {
	last := &w[len(w)-1]
	back = *last
	last.old, last.known = nil, true
	return back
}
