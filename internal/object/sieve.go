package object

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A Sketch is two bits for each label of an object. Kept beside the object, it tells of most objects that a selector
// does not want that they are not wanted, and nobody has to look at them: in a walk over thousands of objects, each of which
// lies somewhere else in memory, to look is what takes the time.
type Sketch uint64

// Sketch returns the sketch of labels.
func (l Labels) Sketch() (all Sketch) {
	if strings.IndexByte(string(l), '\\') >= 0 { // no label that is valid
		for name, value := range l.All() {
			all |= sketchOf(name, value)
		}
		return all
	}
	for at := 1; at < len(l); at++ { // over the brace, and then the commas
		name := l.text(&at)
		at++ // the colon
		all |= sketchOf(name, l.text(&at))
	}
	return all
}

// sketchOf is the sketch of one label: two places of FNV-1a, mixed once more, as the last bytes have not come far yet.
func sketchOf(name, value string) Sketch {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * prime
	}
	hash *= prime // a zero between them
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * prime
	}
	const mix = 0x9e3779b97f4a7c15
	hash = (hash ^ hash>>32) * mix
	return 1<<(hash>>58) | 1<<(hash>>52&63)
}

// A Sieve holds back objects that a selector does not want, as far as their sketches tell. For each of its elements, an object that is
// wanted has one of the labels that it stands for. The zero Sieve holds back nothing.
type Sieve [][]Sketch

// SieveOf returns the sieve of a selector, which may be nil. It only knows of labels that must have one of some values.
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

// Passes says whether an object with labels of this sketch may be wanted.
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
