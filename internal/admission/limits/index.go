package limits

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/tidwall/btree"
	corev1 "k8s.io/api/core/v1"
)

// An index has the decoded LimitRanges at one revision. It and they are immutable once fold has
// returned it.
type index struct {
	namespaces btree.Map[string, []*decoded] // namespaces with LimitRanges only

	read int // number of objects read by the fold that returned this index
}

// decoded is a LimitRange, or the error of decoding it.
type decoded struct {
	name   string
	limits *corev1.LimitRange
	err    error
}

// of returns the LimitRanges of a namespace, sorted by name.
func (x *index) of(namespace string) []*decoded {
	all, _ := x.namespaces.Get(namespace)
	return all
}

// fold decodes the changed LimitRanges. It copies the list of a namespace before it changes it.
func fold(last *index, c *state.Changes) *index {
	next := &index{}
	if last != nil {
		next.namespaces = *last.namespaces.Copy()
	}
	own := map[string]bool{} // namespaces whose list no other index shares
	for key, o := range c.Objects() {
		list := next.of(key.Namespace)
		if !own[key.Namespace] {
			list, own[key.Namespace] = slices.Clone(list), true
		}
		at, found := slices.BinarySearchFunc(list, key.Name, func(d *decoded, name string) int { return strings.Compare(d.name, name) })
		switch {
		case o == nil && found:
			list = slices.Delete(list, at, at+1)
		case o != nil && found:
			list[at] = decode(o)
		case o != nil:
			list = slices.Insert(list, at, decode(o))
		}
		if o != nil {
			next.read++
		}
		if len(list) == 0 {
			next.namespaces.Delete(key.Namespace)
		} else {
			next.namespaces.Set(key.Namespace, list)
		}
	}
	return next
}

func decode(o *object.Object) *decoded {
	d := &decoded{name: o.Key.Name}
	tree, err := o.Tree()
	if err == nil {
		d.limits, err = admission.Decode[corev1.LimitRange](tree)
	}
	if err != nil {
		d.err = fmt.Errorf("%s: %w", o.Key, err)
	}
	return d
}
