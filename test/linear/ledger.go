package linear

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// A change is an entry of the ledger: a new state of a key.
type change struct {
	typ    EventType
	key    Key
	object Object // for a deletion: the deleted object, at the revision of the deletion
	author *Operation
}

func (c *change) String() string { return fmt.Sprintf("%s %s: %v", c.typ, c.key, c.object) }

// after returns the object after the change.
func (c *change) after() Object {
	if c.typ == Deleted {
		return Object{}
	}
	return c.object
}

// A ledger is the order of all writes, from responses and events.
//
// Between newLedger and the end of settle, deletions with an unknown outcome have no author; after
// that it does not change.
type ledger struct {
	revisions []*change         // all changes by revision
	keys      map[Key][]*change // those of a key
	kinds     map[Kind][]*change
	names     map[Kind][]string // sorted
	deletions map[string]*change
	values    map[string]*change
}

// newLedger collects the changes, which must not contradict each other.
func newLedger(r *Report) (*ledger, error) {
	l := &ledger{
		keys: map[Key][]*change{}, kinds: map[Kind][]*change{}, names: map[Kind][]string{},
		deletions: map[string]*change{}, values: map[string]*change{},
	}
	known := map[Revision]*change{}
	var errs []error
	note := func(c change, who fmt.Stringer) {
		if c.object.Revision == 0 {
			errs = append(errs, fmt.Errorf("%v: %v has no revision", who, &c))
		} else if k := known[c.object.Revision]; k == nil {
			known[c.object.Revision] = &c
		} else if k.typ != c.typ || k.key != c.key || k.object != c.object {
			errs = append(errs, fmt.Errorf("revision %d is %v, but %v: it is %v", c.object.Revision, k, who, &c))
		}
	}
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Outcome == Done && o.writes() && o.Verb != Delete {
			typ := Modified
			if o.Verb == Create {
				typ = Added
			}
			note(change{typ: typ, key: o.Key, object: o.Object}, o)
		}
	}
	for i := range r.Streams {
		s := &r.Streams[i]
		for _, e := range s.Events {
			if e.Type != Bookmark {
				note(change{typ: e.Type, key: Key{s.Kind, e.Name}, object: e.Object}, s)
			}
		}
	}
	for _, c := range known {
		l.revisions = append(l.revisions, c)
	}
	slices.SortFunc(l.revisions, func(a, b *change) int { return cmp.Compare(a.object.Revision, b.object.Revision) })
	for _, c := range l.revisions {
		if l.keys[c.key] == nil {
			l.names[c.key.Kind] = append(l.names[c.key.Kind], c.key.Name)
		}
		l.keys[c.key] = append(l.keys[c.key], c)
		l.kinds[c.key.Kind] = append(l.kinds[c.key.Kind], c)
	}
	for _, names := range l.names {
		slices.Sort(names)
	}
	return l, errors.Join(limit(errs)...)
}

// audit checks that the ledger is a history of objects, and finds the authors of its changes,
// except for deletions that were not acknowledged.
func (l *ledger) audit(ops []Operation) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	created := map[string]*change{} // by uid
	for _, changes := range l.keys {
		before := Object{}
		for _, c := range changes {
			switch c.typ {
			case Added:
				if before != (Object{}) {
					fail("%v where there was %v", c, before)
				}
				if other := created[c.object.UID]; other != nil {
					fail("%v has the uid of %v", c, other)
				}
				created[c.object.UID] = c
			case Modified, Deleted:
				if before == (Object{}) || c.object.UID != before.UID {
					fail("%v where there was %v", c, before)
				}
				if c.typ == Deleted && c.object.Value != before.Value {
					fail("%v shows another value than the object had: %v", c, before)
				}
			default:
				fail("%v is of an unknown type", c)
			}
			if c.typ == Deleted {
				l.deletions[c.object.UID] = c
			} else if other := l.values[c.object.Value]; other != nil {
				fail("%v was written before: %v", c, other)
			} else {
				l.values[c.object.Value] = c
			}
			before = c.after()
		}
	}
	for i := range ops {
		if err := l.sign(&ops[i]); err != nil {
			errs = append(errs, err)
		}
	}
	for _, c := range l.revisions {
		if c.author == nil && c.typ != Deleted {
			fail("%v, which was not written", c)
		}
	}
	return errors.Join(limit(errs)...)
}

// sign makes a write the author of its change, if it has one.
func (l *ledger) sign(o *Operation) error {
	if !o.writes() {
		return nil
	}
	c := l.values[o.Value]
	if o.Verb == Delete {
		c = nil
		if o.Outcome == Done {
			c = l.deletions[o.Object.UID]
		}
	}
	switch {
	case c == nil && o.Outcome == Done:
		return fmt.Errorf("an acknowledged write is lost: no watcher received it: %v", o)
	case c == nil:
		return nil
	case o.Outcome != Done && o.Outcome != Unknown:
		return fmt.Errorf("a refused write has happened: %v is by %v", c, o)
	case c.author != nil:
		return fmt.Errorf("two writes have won: %v is by %v and by %v", c, c.author, o)
	case c.key != o.Key, (c.typ == Added) != (o.Verb == Create):
		return fmt.Errorf("%v is no outcome of %v", c, o)
	case !o.meets(l.before(c)):
		return fmt.Errorf("a precondition was ignored: there was %v at %v", l.before(c), o)
	}
	c.author = o
	return nil
}

// before returns the object before a change.
func (l *ledger) before(c *change) Object { return l.at(c.key, c.object.Revision-1) }

// at returns the object of a key at a revision.
func (l *ledger) at(k Key, r Revision) Object {
	changes := l.keys[k]
	if i := after(changes, r); i > 0 {
		return changes[i-1].after()
	}
	return Object{}
}

// next returns the lowest revision, not below the given one, at which the object of a key satisfies
// a predicate.
func (l *ledger) next(k Key, from Revision, is func(Object) bool) (Revision, bool) {
	if is(l.at(k, from)) {
		return from, true
	}
	changes := l.keys[k]
	for _, c := range changes[after(changes, from):] {
		if is(c.after()) {
			return c.object.Revision, true
		}
	}
	return 0, false
}

// collection returns the objects of a kind at a revision.
func (l *ledger) collection(k Kind, r Revision) []Item {
	var items []Item
	for _, name := range l.names[k] {
		if o := l.at(Key{k, name}, r); o != (Object{}) {
			items = append(items, Item{name, o})
		}
	}
	return items
}

// after returns the index of the first change after a revision.
func after(changes []*change, r Revision) int {
	return sort.Search(len(changes), func(i int) bool { return changes[i].object.Revision > r })
}

// limit shortens a report: the first errors are enough.
func limit(errs []error) []error {
	const most = 10
	if n := len(errs) - most; n > 0 {
		return append(errs[:most:most], fmt.Errorf("and %d more", n))
	}
	return errs
}
