package schema

// way holds the places from the root of the object to the value that is being evaluated.
type way []place

// place is a value on the way, and what led there from the place before: a key or, in a list, nothing but the value.
type place struct {
	value any
	key   string
	item  bool

	// The correlation with the old value, found out when first asked for: most values have nothing to be excused.
	old   *correlation
	known bool
}

// unchanged tells whether an error about the value at the end is excused because the value is the same in the old object or,
// if it does not correlate, the nearest one around that does. The answer is remembered with the correlation, for all values
// that depend on it.
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

// correlation returns the correlation of a place, or nil.
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

// start puts the root on the way. old is nil if there is no old object.
func (w *way) start(root *node, obj, old map[string]any) {
	first := place{value: obj, known: true}
	if old != nil {
		first.old = &correlation{node: root, old: old, root: true}
	}
	*w = append(make(way, 0, 8), first)
}

// apart says that the value at the end does not correlate, nor anything below, until the place that it returns is put back.
func (w way) apart() (back place) {
	last := &w[len(w)-1]
	back = *last
	last.old, last.known = nil, true
	return back
}
