package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"
)

// order checks the objects of a snapshot. Both writer and reader use it: neither accepts objects
// that a journal cannot hold.
type order struct {
	revision object.Revision // of the snapshot
	last     object.Key
	seen     []object.Revision // of the objects of last's resource
	objects  int
	bytes    int64
}

var errOrder = errors.New("out of order")

// next checks the next object.
func (v *order) next(o *object.Object) error {
	k := o.Key
	switch {
	case k.Name == "" || k.Resource.Resource == "":
		return fmt.Errorf("%q is not the key of an object", k)
	case !text(k.Resource.Group) || !text(k.Resource.Resource) || !text(k.Namespace) || !text(k.Name):
		return fmt.Errorf("%q is not the key of an object", k)
	case v.objects > 0 && compare(k, v.last) <= 0:
		return fmt.Errorf("%s comes after %s: %w", k, v.last, errOrder)
	case o.Revision < 1 || o.Revision > v.revision:
		return fmt.Errorf("%s has revision %d, but the store is at %d", k, o.Revision, v.revision)
	case len(o.Raw) > maxObject:
		return fmt.Errorf("%s has %d bytes, the maximum is %d", k, len(o.Raw), maxObject)
	}
	if k.Resource != v.last.Resource {
		if err := v.end(); err != nil {
			return err
		}
	}
	v.last = k
	v.seen = append(v.seen, o.Revision)
	v.objects++
	v.bytes += int64(len(o.Raw))
	return nil
}

// end checks the revisions of a resource after its last object.
func (v *order) end() error {
	slices.Sort(v.seen)
	for i, r := range v.seen {
		if i > 0 && v.seen[i-1] == r {
			return fmt.Errorf("two objects of %s have revision %d", v.last.Resource, r)
		}
	}
	v.seen = v.seen[:0]
	return nil
}

// compare orders the keys of a store.
func compare(a, b object.Key) int {
	return cmp.Or(
		cmp.Compare(a.Resource.Group, b.Resource.Group),
		cmp.Compare(a.Resource.Resource, b.Resource.Resource),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// text reports whether a part of a key is valid in all journals.
func text(s string) bool { return len(s) <= maxText && !strings.ContainsAny(s, "/\x00") }
