package workqueue

import (
	"cmp"
	"slices"
)

// ready holds the ready keys: levels by descending priority, in each level groups that take turns,
// and in each group entries in insertion order. There are few levels; empty levels and empty groups
// are removed.
type ready[K comparable] struct {
	group  func(K) string // nil: there is one group
	levels []*level[K]
	len    int
	spare  *level[K] // the level removed last, for reuse
}

type level[K comparable] struct {
	priority int
	len      int
	groups   map[string]*group[K]
	turn     *group[K] // the next group of the ring
	spare    *group[K] // the group removed last, for reuse
}

type group[K comparable] struct {
	list[K]
	name       string
	level      *level[K]
	prev, next *group[K]
}

// push appends an entry to the list of its priority and group.
func (r *ready[K]) push(e *entry[K]) {
	l := r.level(e.priority)
	g := l.turn
	if r.group != nil {
		g = l.groups[r.group(e.key)]
	}
	if g == nil {
		g = l.join(r.group, e.key)
	}
	e.in = g
	g.list.push(e)
	l.len++
	r.len++
}

// pop removes and returns the next entry, or nil if there is none.
func (r *ready[K]) pop() *entry[K] {
	if r.len == 0 {
		return nil
	}
	l := r.levels[0]
	g := l.turn
	l.turn = g.next
	e := g.first
	r.remove(e)
	return e
}

// remove removes an entry from its group.
func (r *ready[K]) remove(e *entry[K]) {
	g := e.in
	e.in = nil
	g.list.remove(e)
	if g.first == nil && r.group != nil {
		g.level.leave(g)
	}
	g.level.len--
	r.len--
	if g.level.len == 0 {
		r.levels = slices.DeleteFunc(r.levels, func(l *level[K]) bool { return l == g.level })
		r.spare = g.level
	}
}

// level returns the level of a priority, and creates it if necessary.
func (r *ready[K]) level(priority int) *level[K] {
	n, found := slices.BinarySearchFunc(r.levels, priority, func(l *level[K], p int) int { return cmp.Compare(p, l.priority) })
	if found {
		return r.levels[n]
	}
	l := r.spare
	if l == nil {
		l = &level[K]{groups: map[string]*group[K]{}}
	}
	l.priority, r.spare = priority, nil
	r.levels = slices.Insert(r.levels, n, l)
	return l
}

// join adds the group of a key at the end of the ring.
func (l *level[K]) join(name func(K) string, key K) *group[K] {
	g := l.spare
	if g == nil {
		g = &group[K]{level: l}
	}
	l.spare = nil
	if name != nil {
		g.name = name(key)
		l.groups[g.name] = g
	}
	if l.turn == nil {
		g.prev, g.next = g, g
		l.turn = g
		return g
	}
	g.prev, g.next = l.turn.prev, l.turn
	g.prev.next, g.next.prev = g, g
	return g
}

// leave removes a group from the ring.
func (l *level[K]) leave(g *group[K]) {
	delete(l.groups, g.name)
	if g.next == g {
		l.turn = nil
	} else {
		g.prev.next, g.next.prev = g.next, g.prev
		if l.turn == g {
			l.turn = g.next
		}
	}
	l.spare = g
}
