package object

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A Sketch is a Bloom filter of an object's labels, with two bits for each label. Stored beside the
// object in the index, it excludes most objects that a selector does not match without access to
// the object itself: in a walk over thousands of objects that are scattered over memory, that
// access dominates the time.
type Sketch uint64

// Sketch returns the sketch of labels.
func (l Labels) Sketch() (all Sketch) {
	if strings.IndexByte(string(l), '\\') >= 0 { // not a valid label
		for name, value := range l.All() {
			all |= sketchOf(name, value)
		}
		return all
	}
	for at := 1; at < len(l); at++ { // skips the brace, then the commas
		name := l.text(&at)
		at++ // the colon
		all |= sketchOf(name, l.text(&at))
	}
	return all
}

// sketchOf returns the sketch of one label: two bits chosen by FNV-1a, with one more mixing step
// because the last bytes have hardly spread yet.
func sketchOf(name, value string) Sketch {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * prime
	}
	hash *= prime // a zero byte separates them
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * prime
	}
	const mix = 0x9e3779b97f4a7c15
	hash = (hash ^ hash>>32) * mix
	return 1<<(hash>>58) | 1<<(hash>>52&63)
}

// A Sieve excludes objects that a selector does not match, as far as their sketches show it. For
// each element of the Sieve, a matching object has at least one of the labels in that element. The
// zero Sieve excludes nothing.
type Sieve [][]Sketch

// SieveOf returns the sieve of a selector, which may be nil. It uses only requirements that a label
// has one of some values.
func SieveOf(selector labels.Selector) Sieve {
	if selector == nil {
		return nil
	}
	var s Sieve
	requirements, _ := selector.Requirements()
	for i := range requirements {
		r := &requirements[i]
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			var any []Sketch
			for _, value := range r.ValuesUnsorted() {
				any = append(any, sketchOf(r.Key(), value))
			}
			s = append(s, any)
		}
	}
	return s
}

// Passes reports whether an object whose labels have this sketch may match.
func (s Sieve) Passes(k Sketch) bool {
next:
	for _, any := range s {
		for _, one := range any {
			if k&one == one {
				continue next
			}
		}
		return false
	}
	return true
}
