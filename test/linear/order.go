package linear

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// never is the return of an operation without a response.
const never = time.Duration(math.MaxInt64)

// A moment is a step in time: the call of an operation, or an observation that a revision has been
// committed.
type moment struct {
	at        time.Duration
	operation int // -1: none
	call      bool
	seen      Revision
	by        fmt.Stringer
}

// order gives each operation its point in the order of the ledger, see the package. It returns the
// bound of each operation at its call.
func (l *ledger) order(r *Report) ([]Revision, error) {
	var moments []moment
	for i := range r.Operations {
		o := &r.Operations[i]
		moments = append(moments, moment{at: o.Call, operation: i, call: true})
		if o.Outcome != Unknown {
			moments = append(moments, moment{at: o.Return, operation: i})
		}
	}
	for _, s := range r.Streams {
		for n := range s.Events {
			e := &s.Events[n]
			moments = append(moments, moment{at: e.Seen, operation: -1, seen: e.Object.Revision, by: e})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		if c := cmp.Compare(a.at, b.at); c != 0 || a.call == b.call {
			return c
		}
		if a.call {
			return -1 // simultaneous operations are concurrent
		}
		return 1
	})
	var errs []error
	var bound Revision
	var witness fmt.Stringer // of the bound
	raise := func(r Revision, by fmt.Stringer) {
		if r > bound {
			bound, witness = r, by
		}
	}
	bounds := make([]Revision, len(r.Operations))
	points := make([]Revision, len(r.Operations))
	for _, m := range moments {
		switch {
		case m.operation < 0:
			raise(m.seen, m.by)
		case m.call:
			bounds[m.operation] = bound
			var err error
			if points[m.operation], err = l.point(&r.Operations[m.operation], bound); err != nil {
				if witness != nil {
					err = fmt.Errorf("%w; it was called after %v", err, witness)
				}
				errs = append(errs, err)
			}
		default:
			raise(points[m.operation], &r.Operations[m.operation])
		}
	}
	return bounds, errors.Join(limit(errs)...)
}

// point returns the lowest revision, not below a bound, at which the response to an operation is
// true; 0 if it depends on none.
func (l *ledger) point(o *Operation, bound Revision) (Revision, error) {
	there := func(is Object) bool { return is != Object{} }
	var is func(Object) bool
	switch {
	case o.writes() && (o.Outcome == Done || o.Outcome == Unknown):
		return l.written(o, bound)
	case o.Verb == List && o.Outcome == Done:
		return l.listed(o, bound)
	case o.Outcome == Done:
		is = func(is Object) bool { return is == o.Object }
	case o.Outcome == NotFound:
		is = func(is Object) bool { return !there(is) }
	case o.Outcome == Exists:
		is = there
	case o.Outcome == Conflict && (o.Revision != 0 || o.UID != ""):
		is = func(is Object) bool { return there(is) && !o.meets(is) }
	default:
		return 0, nil
	}
	from := bound
	switch o.Mode {
	case Any:
		from = 0
	case NotOlder:
		from = o.At
	}
	p, ok := l.next(o.Key, from, is)
	if !ok && o.Outcome == Done {
		if _, was := l.next(o.Key, 0, is); !was {
			return 0, fmt.Errorf("a read of what was never there: %v", o)
		}
	}
	if !ok {
		return 0, fmt.Errorf("a stale answer: at %d there was %v and no later state explains %v", from, l.at(o.Key, from), o)
	}
	return p, nil
}

// written returns the point of a write that has happened.
func (l *ledger) written(o *Operation, bound Revision) (Revision, error) {
	c := l.values[o.Value]
	if o.Verb == Delete {
		c = l.deletions[o.Object.UID]
	}
	if c == nil || c.author != o {
		return 0, nil // it has not happened, or audit reports it
	}
	p := c.object.Revision
	if p <= bound {
		return p, fmt.Errorf("a write in the past: revision %d had been seen before the call of %v, which is %v", bound, o, c)
	}
	return p, nil
}

// listed checks that the pages of a list show one revision, and returns it.
func (l *ledger) listed(o *Operation, bound Revision) (Revision, error) {
	if len(o.Pages) == 0 {
		return 0, fmt.Errorf("a list without pages: %v", o)
	}
	p := o.Pages[0].Revision
	var items []Item
	for _, page := range o.Pages {
		if page.Revision != p {
			return p, fmt.Errorf("a torn list: pages at %d and %d: %v", p, page.Revision, o)
		}
		items = append(items, page.Items...)
	}
	switch {
	case o.Mode == Latest && p < bound:
		return p, fmt.Errorf("a stale list: revision %d had been seen before: %v", bound, o)
	case o.Mode == NotOlder && p < o.At, o.Mode == Exact && p != o.At:
		return p, fmt.Errorf("a list at a revision other than the requested one: %v", o)
	}
	if want := l.collection(o.Key.Kind, p); !slices.Equal(items, want) {
		return p, fmt.Errorf("a torn list: %v: it has %s", o, difference(items, want))
	}
	return p, nil
}

// difference describes how a list differs from the expected one.
func difference(got, want []Item) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("no %s, want %v", want[i].Name, want[i].Object)
		case i >= len(want):
			return fmt.Sprintf("%s, %v, which is too much", got[i].Name, got[i].Object)
		case got[i] != want[i]:
			return fmt.Sprintf("%s, %v, want %s, %v", got[i].Name, got[i].Object, want[i].Name, want[i].Object)
		}
	}
	return "no difference"
}

// settle finds the authors of deletions that were not acknowledged, among the operations whose
// outcome is unknown. Candidates are those that were called before any client could know of the
// deletion; the same ones and more are candidates for later deletions. So any of them may be taken,
// except that one whose preconditions match no other deletion is taken first.
func (l *ledger) settle(ops []Operation, bounds []Revision) error {
	open := map[Key][]int{}
	for i := range ops {
		if o := &ops[i]; o.Verb == Delete && o.Outcome == Unknown {
			open[o.Key] = append(open[o.Key], i)
		}
	}
	var errs []error
	for _, c := range l.revisions {
		if c.author != nil {
			continue
		}
		found := -1
		for n, i := range open[c.key] {
			if o := &ops[i]; bounds[i] < c.object.Revision && o.meets(l.before(c)) {
				if found = n; o.UID != "" || o.Revision != 0 {
					break
				}
			}
		}
		if found < 0 {
			errs = append(errs, fmt.Errorf("%v, which was not deleted", c))
			continue
		}
		c.author = &ops[open[c.key][found]]
		open[c.key] = slices.Delete(open[c.key], found, found+1)
	}
	return errors.Join(limit(errs)...)
}
