package cache

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	"github.com/tidwall/btree"
)

// A store is an Indexer: entries ordered by namespace and name, and by the values of each index. It
// has no lock. A snapshot copies nodes only when they change later.
type store struct {
	objects *btree.BTreeG[*entry]
	indices []*index
}

// An index finds entries by values.
type index struct {
	name    string
	extract client.IndexerFunc
	tree    *btree.BTreeG[posting]
}

type posting struct {
	value string
	*entry
}

func compareEntries(a, b *entry) int {
	if a.namespace != b.namespace {
		return strings.Compare(a.namespace, b.namespace)
	}
	return strings.Compare(a.name, b.name)
}

func newStore() *store {
	less := func(a, b *entry) bool { return compareEntries(a, b) < 0 }
	return &store{objects: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

func newIndex(name string, extract client.IndexerFunc) *index {
	less := func(a, b posting) bool {
		if a.value != b.value {
			return a.value < b.value
		}
		return compareEntries(a.entry, b.entry) < 0
	}
	return &index{name: name, extract: extract, tree: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// snapshot returns an immutable copy. No other goroutine may use either of them during the call.
func (s *store) snapshot() *store {
	c := &store{objects: s.objects.Copy(), indices: make([]*index, len(s.indices))}
	for i, x := range s.indices {
		c.indices[i] = &index{name: x.name, extract: x.extract, tree: x.tree.Copy()}
	}
	return c
}

func (s *store) get(key client.ObjectKey) *entry {
	e, _ := s.objects.Get(&entry{identity: identity{namespace: key.Namespace, name: key.Name}})
	return e
}

// put adds an entry, or replaces the one with the same key and returns it. The entry has its values
// for all indices.
func (s *store) put(e *entry) *entry {
	old, _ := s.objects.Set(e)
	for i, x := range s.indices {
		if old != nil {
			for _, value := range old.values[i] {
				if !slices.Contains(e.values[i], value) {
					x.tree.Delete(posting{value, old})
				}
			}
		}
		for _, value := range e.values[i] {
			x.tree.Set(posting{value, e})
		}
	}
	return old
}

// remove removes the entry of a key, and returns it.
func (s *store) remove(e *entry) *entry {
	old, _ := s.objects.Delete(e)
	if old != nil {
		for i, x := range s.indices {
			for _, value := range old.values[i] {
				x.tree.Delete(posting{value, old})
			}
		}
	}
	return old
}

// index returns the number of an index, or -1.
func (s *store) index(name string) int {
	return slices.IndexFunc(s.indices, func(x *index) bool { return x.name == name })
}

// all returns the entries of a namespace, or of all.
func (s *store) all(namespace string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		s.objects.Ascend(&entry{identity: identity{namespace: namespace}}, func(e *entry) bool {
			return (namespace == "" || e.namespace == namespace) && yield(e)
		})
	}
}

// by returns the entries with a value in an index.
func (s *store) by(index int, value, namespace string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		from := posting{value, &entry{identity: identity{namespace: namespace}}}
		s.indices[index].tree.Ascend(from, func(p posting) bool {
			return p.value == value && (namespace == "" || p.namespace == namespace) && yield(p.entry)
		})
	}
}

// valuesOf calls the functions of indices.
func valuesOf(k *kind, indices []*index, e *entry) ([][]string, error) {
	if len(indices) == 0 {
		return nil, nil
	}
	values := make([][]string, len(indices))
	obj := e.object // which index functions must not change
	if obj == nil {
		decode := k.decode
		if k.events {
			decode = k.share // handlers are going to read it, too
		}
		var err error
		if obj, err = decode(e); err != nil {
			return values, fmt.Errorf("index %s: %w", e.key(), err)
		}
	}
	for i, x := range indices {
		values[i] = compact(x.extract(obj))
	}
	return values, nil
}

// compact returns each value once, in memory of its own.
func compact(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	c := slices.Clone(values)
	slices.Sort(c)
	return slices.Clip(slices.Compact(c))
}
