package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// rig is a State under test, and its model.
type rig struct {
	*State
	t     *testing.T
	r     *rand.Rand
	open  func() (journal.Journal, error)
	bytes int
	j     journal.Journal
	model model
	// Cursors of slow watchers.
	cursors []*watcher
}

type watcher struct {
	*Cursor
	resource schema.GroupResource
	seen     object.Revision // of the last event
}

func (g *rig) start() {
	j, err := g.open()
	if err != nil {
		g.t.Fatal(err)
	}
	g.j = j
	if g.State, err = Open(g.t.Context(), j, Options{HistoryBytes: g.bytes}); err != nil {
		g.t.Fatal(err)
	}
	if g.Revision() != g.model.head() {
		g.t.Fatalf("opened at revision %d, want %d", g.Revision(), g.model.head())
	}
	// Watchers resume where they were.
	for _, w := range g.cursors {
		at := w.Revision()
		if w.Cursor, err = g.Watch(w.resource, at); err != nil {
			g.mayBeCompacted(w.resource, at, err)
			w.Cursor, w.seen = g.watch(w.resource, g.Revision()), g.Revision()
		}
	}
}

func (g *rig) watch(resource schema.GroupResource, after object.Revision) *Cursor {
	c, err := g.Watch(resource, after)
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// mayBeCompacted checks that there is a reason for missing history after a revision.
func (g *rig) mayBeCompacted(resource schema.GroupResource, after object.Revision, err error) {
	g.t.Helper()
	if !errors.Is(err, journal.ErrCompacted) {
		g.t.Fatalf("history of %s after %d: %v", resource, after, err)
	}
	if oldest := g.oldest(resource); after >= oldest {
		g.t.Fatalf("history of %s after %d is gone, and should be there after %d", resource, after, oldest)
	}
}

func (g *rig) key() object.Key {
	k := object.Key{Resource: resources[g.r.IntN(3)], Name: fmt.Sprint(g.r.IntN(5))}
	if k.Resource != nodes {
		k.Namespace = fmt.Sprint("ns", g.r.IntN(3))
	}
	return k
}

func (g *rig) write() {
	var b journal.Batch
	for range 1 + g.r.IntN(3) {
		k := g.key()
		if slices.ContainsFunc(b.Entries, func(e journal.Entry) bool { return e.Key == k }) {
			continue
		}
		e := journal.Entry{Key: k}
		if o, _ := g.Get(k); o != nil {
			e.Prev = o.Revision
		}
		if e.Prev == 0 || g.r.IntN(3) > 0 {
			var owners []string
			for range g.r.IntN(3) {
				owners = append(owners, fmt.Sprint("owner", g.r.IntN(4)))
			}
			e.Object = newObject(g.t, k, strings.Repeat("x", g.r.IntN(200)), owners...)
		}
		b.Entries = append(b.Entries, e)
	}
	rev, err := g.Append(g.t.Context(), b)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := range b.Entries {
		b.Entries[i].Revision = rev - object.Revision(len(b.Entries)-1-i)
	}
	g.model.entries = append(g.model.entries, b.Entries...)
	if g.Revision() != rev {
		g.t.Fatalf("state is at %d after a write of %d", g.Revision(), rev)
	}
}

func (g *rig) revision() object.Revision {
	return object.Revision(g.r.Int64N(int64(g.model.head()) + 2))
}

func (g *rig) checkSnapshot(snap Snapshot, resource schema.GroupResource, at object.Revision) {
	g.t.Helper()
	if snap.Revision != at {
		g.t.Fatalf("snapshot of revision %d, want %d", snap.Revision, at)
	}
	want := g.model.at(resource, at)
	if snap.Len() != len(want) {
		g.t.Fatalf("snapshot of %s at %d has %d objects, want %d", resource, at, snap.Len(), len(want))
	}
	// All, in order; of one namespace; from somewhere on.
	var all []object.Key
	for k := range want {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b object.Key) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	namespace, from := "", object.Key{}
	if g.r.IntN(2) == 0 {
		namespace = fmt.Sprint("ns", g.r.IntN(3))
	}
	if g.r.IntN(2) == 0 {
		from = g.key()
	}
	all = slices.DeleteFunc(all, func(k object.Key) bool {
		return namespace != "" && k.Namespace != namespace || k.Less(from)
	})
	var got []object.Key
	for o := range snap.From(namespace, from.Namespace, from.Name) {
		if !same(o, want[o.Key]) {
			g.t.Fatalf("%s at %d: %s, want %v", o.Key, at, o.Raw, want[o.Key])
		}
		got = append(got, o.Key)
	}
	if !slices.Equal(got, all) {
		g.t.Fatalf("%s at %d in %q from %v:\n%v, want\n%v", resource, at, namespace, from, got, all)
	}
	k := g.key()
	if k.Resource = resource; !same(snap.Get(k.Namespace, k.Name), want[k]) {
		g.t.Fatalf("%s at %d: %v, want %v", k, at, snap.Get(k.Namespace, k.Name), want[k])
	}
}

func (g *rig) checkEvents(got, want []Event) {
	g.t.Helper()
	if len(got) > len(want) {
		g.t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		a, b := got[i], want[i]
		if a.Revision != b.Revision || !same(a.Object, b.Object) || !same(a.Prev, b.Prev) {
			g.t.Fatalf("event %d: %+v, want %+v", i, a, b)
		}
	}
}

// drain reads all events after a revision.
func (g *rig) drain(resource schema.GroupResource, after object.Revision) {
	c, err := g.Watch(resource, after)
	if err != nil {
		g.mayBeCompacted(resource, after, err)
		return
	}
	want := g.model.events(resource, after)
	for {
		got, _, err := c.Next(g.t.Context())
		if err != nil {
			g.t.Fatalf("%s after %d: %v", resource, after, err) // Watch returned without an error
		}
		if len(got) == 0 {
			break
		}
		g.checkEvents(got, want)
		want = want[len(got):]
	}
	if len(want) > 0 {
		g.t.Fatalf("%s after %d: %d events are missing", resource, after, len(want))
	}
	if c.Revision() < g.Revision() {
		g.t.Fatalf("cursor has seen all and is at %d of %d", c.Revision(), g.Revision())
	}
}

// step lets a slow watcher read the available events.
func (w *watcher) step(g *rig) {
	got, wait, err := w.Next(g.t.Context())
	if err != nil {
		g.mayBeCompacted(w.resource, w.Revision(), err)
		w.Cursor, w.seen = g.watch(w.resource, g.Revision()), g.Revision()
		return
	}
	want := g.model.events(w.resource, w.seen)
	g.checkEvents(got, want)
	if len(got) > 0 {
		w.seen = got[len(got)-1].Revision
	} else if len(want) > 0 || wait == nil {
		g.t.Fatalf("a watcher at %d sees nothing of %d events", w.seen, len(want))
	}
}

func (g *rig) checkIndex() {
	k := g.key()
	got, at := g.Get(k)
	if want := g.model.at(k.Resource, at)[k]; !same(got, want) || at != g.model.head() {
		g.t.Fatalf("%s: %v at %d, want %v", k, got, at, want)
	}
	owner := fmt.Sprint("owner", g.r.IntN(5))
	want := map[object.Key]bool{}
	live := 0
	for _, resource := range resources {
		objects := g.model.at(resource, g.model.head())
		if n := g.Count(resource); n != len(objects) {
			g.t.Fatalf("%d %s, want %d", n, resource, len(objects))
		}
		bytes := int64(0)
		for _, o := range objects {
			bytes += int64(len(o.Raw))
		}
		if n, size := g.Size(resource); n != len(objects) || size != bytes {
			g.t.Fatalf("%d bytes in %d %s, want %d in %d", size, n, resource, bytes, len(objects))
		}
		if slices.Contains(g.Resources(), resource) != (len(objects) > 0) {
			g.t.Fatalf("resources with objects: %v", g.Resources())
		}
		live += len(objects)
		for k, o := range objects {
			for _, ref := range o.Meta.Owners {
				if ref.UID == types.UID(owner) {
					want[k] = true
				}
			}
		}
	}
	dependents := g.Dependents(types.UID(owner))
	if len(dependents) != len(want) {
		g.t.Fatalf("%d dependents of %s, want %d of %d objects", len(dependents), owner, len(want), live)
	}
	for _, k := range dependents {
		if !want[k] {
			g.t.Fatalf("%s does not depend on %s", k, owner)
		}
	}
}
