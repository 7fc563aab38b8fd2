package state

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	pods    = schema.GroupResource{Resource: "pods"}
	deploys = schema.GroupResource{Group: "apps", Resource: "deployments"}
	nodes   = schema.GroupResource{Resource: "nodes"}
	never   = schema.GroupResource{Resource: "never"} // never written

	resources = []schema.GroupResource{pods, deploys, nodes, never}
)

// model is the obvious state: all entries ever written, and every answer found by
// folding them from the first.
type model struct{ entries []journal.Entry }

func (m *model) head() object.Revision {
	if len(m.entries) == 0 {
		return 0
	}
	return m.entries[len(m.entries)-1].Revision
}

// at returns the objects of a resource at a revision.
func (m *model) at(resource schema.GroupResource, rev object.Revision) map[object.Key]*object.Object {
	objects := map[object.Key]*object.Object{}
	for _, e := range m.entries {
		if e.Revision > rev {
			break
		}
		if e.Key.Resource != resource {
			continue
		}
		if e.Object == nil {
			delete(objects, e.Key)
		} else {
			objects[e.Key] = e.Object
		}
	}
	return objects
}

// events returns the events of a resource after a revision.
func (m *model) events(resource schema.GroupResource, after object.Revision) []Event {
	var events []Event
	at := map[object.Key]*object.Object{}
	for _, e := range m.entries {
		if e.Key.Resource != resource {
			continue
		}
		if e.Revision > after {
			events = append(events, Event{Revision: e.Revision, Object: e.Object, Prev: at[e.Key]})
		}
		at[e.Key] = e.Object
	}
	return events
}

func newObject(t testing.TB, key object.Key, text string, owners ...string) *object.Object {
	refs := []any{}
	for _, uid := range owners {
		refs = append(refs, map[string]any{"uid": uid})
	}
	o, err := object.New(key, map[string]any{
		"metadata": map[string]any{"name": key.Name, "uid": key.String(), "ownerReferences": refs},
		"text":     text,
	}, 1, time.Unix(7, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func same(a, b *object.Object) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Key == b.Key && a.Revision == b.Revision && string(a.Raw) == string(b.Raw)
}

func TestModel(t *testing.T) {
	onMemory := func() func() (journal.Journal, error) {
		return func() (journal.Journal, error) { return memory.New(), nil }
	}
	onPebble := func() func() (journal.Journal, error) {
		opts := pebble.Options{Dir: "journal", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)}
		return func() (journal.Journal, error) { return pebble.Open(opts) }
	}
	for _, test := range []struct {
		name    string
		journal func() func() (journal.Journal, error)
		bytes   int
		keeps   bool
	}{
		{"memory", onMemory, 0, false},
		{"memory, short history", onMemory, 3000, false},
		{"pebble", onPebble, 0, true},
		{"pebble, short history", onPebble, 3000, true},
		{"pebble, no history", onPebble, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			seed := seeds.Of(t)
			g := &rig{t: t, r: rand.New(rand.NewPCG(seed, 0)), open: test.journal(), bytes: test.bytes}
			g.start()
			defer func() { g.j.Close() }()
			for i := range 6 {
				resource := resources[i%len(resources)]
				g.cursors = append(g.cursors, &watcher{Cursor: g.watch(resource, 0), resource: resource})
			}
			for range 600 {
				g.operate(test.keeps)
			}
			for _, resource := range resources {
				for at := range g.model.head() + 1 {
					g.snapshotAt(resource, at)
					g.drain(resource, at)
				}
			}
		})
	}
}

func (g *rig) operate(keeps bool) {
	resource := resources[g.r.IntN(len(resources))]
	switch dice := g.r.IntN(100); {
	case dice < 50:
		g.write()
	case dice < 60:
		g.checkIndex()
	case dice < 70:
		g.checkSnapshot(g.Snapshot(resource), resource, g.model.head())
	case dice < 78:
		g.snapshotAt(resource, g.revision())
	case dice < 84:
		g.drain(resource, g.revision())
	case dice < 96:
		g.cursors[g.r.IntN(len(g.cursors))].step(g)
	case dice < 98 && keeps:
		head := g.model.head()
		if err := g.j.Compact(g.t.Context(), head-object.Revision(g.r.IntN(100))); err != nil {
			g.t.Fatal(err)
		}
	case keeps:
		if err := g.j.Close(); err != nil {
			g.t.Fatal(err)
		}
		g.start()
	}
}

func (g *rig) snapshotAt(resource schema.GroupResource, at object.Revision) {
	g.t.Helper()
	now := g.Snapshot(resource)
	snap, err := g.SnapshotAt(context.Background(), resource, at)
	if err != nil {
		g.mayBeCompacted(resource, at, err)
		return
	}
	g.checkSnapshot(snap, resource, min(at, g.model.head()))
	g.checkSnapshot(now, resource, g.model.head()) // it has not been changed
}
