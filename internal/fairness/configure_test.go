package fairness

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"
)

func schemaKey(name string) object.Key { return object.Key{Resource: FlowSchemas, Name: name} }
func levelKey(name string) object.Key  { return object.Key{Resource: PriorityLevels, Name: name} }

// A config writes a configuration to a state that has no other writers.
type config struct {
	testing.TB
	store *resource.Store
}

func newConfig(t testing.TB) config {
	st, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return config{t, resource.NewStore(st, resource.NewRegistry(kinds.Definitions()...))}
}

// limiter returns a Limiter that follows the configuration, and does not maintain it.
func (c config) limiter() *Limiter {
	l := New(Config{Options: Options{Unfair: true}, State: c.store.State()})
	l.opts.Unfair = false
	l.config = state.Derive(c.store.State(), l.configure, PriorityLevels, FlowSchemas)
	return l
}

// put stores an object, or removes it with a spec of nil.
func (c config) put(key object.Key, spec map[string]any, annotation string) {
	c.Helper()
	entry := journal.Entry{Key: key}
	if o, _ := c.store.State().Get(key); o != nil {
		entry.Prev = o.Revision
	}
	if spec != nil {
		tree := resource.Tree{"metadata": map[string]any{"name": key.Name, "uid": "uid-" + key.Name, "annotations": map[string]any{"a": annotation}}, "spec": spec}
		var err error
		if entry.Object, err = object.New(key, tree, 0, time.Now()); err != nil {
			c.Fatal(err)
		}
	} else if entry.Prev == 0 {
		return
	}
	if _, err := c.store.State().Append(c.Context(), journal.Batch{Entries: []journal.Entry{entry}}); err != nil {
		c.Fatal(err)
	}
}

func (c config) level(name string, shares int) {
	c.Helper()
	c.put(levelKey(name), map[string]any{"type": "Limited", "limited": map[string]any{
		"nominalConcurrencyShares": shares, "limitResponse": map[string]any{"type": "Reject"},
	}}, "")
}

func (c config) schema(name, level string, precedence int, annotation string) {
	c.Helper()
	c.put(schemaKey(name), map[string]any{
		"priorityLevelConfiguration": map[string]any{"name": level}, "matchingPrecedence": precedence,
		"rules": []any{map[string]any{
			"subjects":      []any{map[string]any{"kind": "User", "user": map[string]any{"name": "user-" + name}}},
			"resourceRules": []any{map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}, "namespaces": []any{"*"}, "clusterScope": true}},
		}},
	}, annotation)
}

// dump returns all of a configuration that affects the classification of requests.
func (c *configuration) dump() string {
	var out strings.Builder
	c.flows.Scan(func(f *flow) bool {
		fmt.Fprintln(&out, f.schema.name, f.schema.precedence, f.schema.level, f.level.name, f.schemaUID, f.levelUID, f.exempt, f.queued, f.most, f == c.catchAll,
			c.byName[f.level.name] == f.level, f.tally == f.level.tallies[f.schema.name])
		return true
	})
	for _, level := range c.levels {
		fmt.Fprintln(&out, level.name, level.settings, level.share.nominal, level.share.lower, level.share.upper, len(level.tallies))
	}
	return out.String()
}

// TestRandomConfiguration checks that after random changes the configuration equals one that is
// made from scratch.
func TestRandomConfiguration(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	c := newConfig(t)
	l := c.limiter()
	levels := []string{"l1", "l2", "l3", "catch-all"}
	for step := range 1000 {
		for range r.IntN(4) {
			schema := []string{"s1", "s2", "s3", "s4", "catch-all", "exempt"}[r.IntN(6)]
			level := levels[r.IntN(len(levels))]
			switch r.IntN(8) {
			case 0:
				c.put(schemaKey(schema), nil, "")
			case 1:
				c.put(levelKey(level), nil, "")
			case 2:
				c.level(level, 1+r.IntN(3))
			case 3:
				c.put(schemaKey(schema), map[string]any{"rules": "none"}, "") // invalid
			default:
				c.schema(schema, level, 1+r.IntN(4), fmt.Sprint(r.IntN(2)))
			}
		}
		if got, want := l.configuration().dump(), c.limiter().configuration().dump(); got != want {
			t.Fatalf("step %d: got\n%s\nwant, from scratch\n%s", step, got, want)
		}
	}
}

// TestChangeCostsWhatItChanges checks that, for any number of schemas, a change decodes only the
// changed ones, and makes flows only for those whose specification differs. A change of a level
// makes all flows again, without decoding the schemas.
func TestChangeCostsWhatItChanges(t *testing.T) {
	for _, n := range []int{10, 100, 1000} {
		c := newConfig(t)
		c.level("l", 1)
		for i := range n {
			c.schema(fmt.Sprint("s", i), "l", 1, "")
		}
		l := c.limiter()
		check := func(what string, read, flows int) {
			t.Helper()
			if w := l.configuration().work; w.read != read || w.flows != flows {
				t.Errorf("%d schemas: %s: %d decoded and %d flows made, want %d and %d", n, what, w.read, w.flows, read, flows)
			}
		}
		mandatory := 2
		check("at first", n+1, n+mandatory)
		c.schema("s1", "l", 1, "another annotation")
		check("a schema that says the same", 1, 0)
		for range 5 {
			c.schema("s1", "l", 2, "")
			c.schema("s1", "l", 3, "")
		}
		check("a burst of changes of one schema", 1, 1)
		c.put(schemaKey("s1"), nil, "")
		check("a schema that is gone", 0, 0)
		c.level("l", 2)
		check("a level", 1, n+mandatory-1)
	}
}

// TestTalliesOfSchemasThatGo checks that the tally of a deleted schema is kept until its last
// request has left, and then dropped.
func TestTalliesOfSchemasThatGo(t *testing.T) {
	c := newConfig(t)
	c.level("l", 1)
	c.schema("s", "l", 1, "")
	l := c.limiter()
	p, _ := l.Enter(t.Context(), asked("user-s", "get"))
	level := l.configuration().byName["l"]
	count := func() int {
		l.configuration()
		level.mu.Lock()
		defer level.mu.Unlock()
		return len(level.tallies)
	}
	c.put(schemaKey("s"), nil, "")
	if n := count(); n != 1 {
		t.Errorf("%d tallies with a request under way, want 1", n)
	}
	p.Leave()
	c.schema("other", "l", 1, "")
	count()
	c.put(schemaKey("other"), nil, "")
	if n := count(); n != 0 {
		t.Errorf("%d tallies at the end, want 0", n)
	}
}

// BenchmarkAfterChange measures a change of one schema and the classification of the next request.
func BenchmarkAfterChange(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint("schemas=", n), func(b *testing.B) {
			c := newConfig(b)
			c.level("l", 1)
			c.schema("first", "l", 1, "")
			for i := range n {
				c.schema(fmt.Sprint("s", i), "l", 2, "")
			}
			l, r := c.limiter(), asked("user-first", "get")
			l.configuration()
			i := 0
			for b.Loop() {
				b.StopTimer()
				c.schema("s0", "l", 2+i%2, "")
				i++
				b.StartTimer()
				if f := l.configuration().classify(r.Attributes); f.schema.name != "first" {
					b.Fatal(f.schema.name)
				}
			}
		})
	}
}
