package doctor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	pods  = schema.GroupResource{Resource: "pods"}
	nodes = schema.GroupResource{Resource: "nodes"}
)

func tree(key object.Key, owners ...string) map[string]any {
	metadata := map[string]any{
		"name": key.Name, "uid": "uid-of-" + key.Name,
		"labels": map[string]any{"b": "", "a": "ä\"\u2028"}, "finalizers": []any{"example.com/x"},
		"creationTimestamp": "2026-07-01T00:00:00Z", "deletionTimestamp": "2026-07-02T00:00:00Z",
	}
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	var references []any
	for _, owner := range owners {
		references = append(references, map[string]any{"apiVersion": "v1", "kind": "Node", "name": owner, "uid": owner})
	}
	if len(references) > 0 {
		metadata["ownerReferences"] = references
	}
	return map[string]any{"apiVersion": "v1", "kind": "Thing", "metadata": metadata}
}

func newObject(t testing.TB, key object.Key, tree map[string]any) *object.Object {
	t.Helper()
	o, err := object.New(key, tree, 1, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// fixture is a state over a journal whose report a test can replace.
type fixture struct {
	*state.State
	t testing.TB
	// report changes what Check reports, if it is set.
	report func(*journal.Report) error
	// sync is the error of Sync.
	sync error
}

func newFixture(t testing.TB, j journal.Journal, historyBytes int) *fixture {
	t.Helper()
	f := &fixture{t: t}
	var err error
	if f.State, err = state.Open(t.Context(), reporting{j, f}, state.Options{HistoryBytes: historyBytes}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return f
}

// reporting is a journal that reports what its fixture says.
type reporting struct {
	journal.Journal
	f *fixture
}

func (r reporting) Check(ctx context.Context) (journal.Report, error) {
	report, err := r.Journal.Check(ctx)
	if r.f.report != nil {
		err = r.f.report(&report)
	}
	return report, err
}

func (f *fixture) put(key object.Key, owners ...string) *object.Object {
	f.t.Helper()
	o := newObject(f.t, key, tree(key, owners...))
	f.write(key, o)
	return o
}

func (f *fixture) write(key object.Key, o *object.Object) {
	f.t.Helper()
	e := journal.Entry{Key: key, Object: o}
	if was, _ := f.Get(key); was != nil {
		e.Prev = was.Revision
	}
	if _, err := f.Append(f.t.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) examine() *Report {
	f.t.Helper()
	r, err := Examine(f.t.Context(), f.State)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func openPebble(t testing.TB) journal.Journal {
	t.Helper()
	j, err := pebble.Open(pebble.Options{Dir: "journal", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

var journals = map[string]func(testing.TB) journal.Journal{
	"memory": func(testing.TB) journal.Journal { return memory.New() },
	"pebble": openPebble,
}

// What is written during an examination is no problem.
func TestHealthy(t *testing.T) {
	for name, open := range journals {
		for _, history := range []int{1 << 10, 1 << 20} {
			t.Run(fmt.Sprintf("%s/history=%d", name, history), func(t *testing.T) {
				f := newFixture(t, open(t), history)
				// What kube-apiserver keeps, too, and is no object of the API.
				ranges := object.Key{Resource: schema.GroupResource{Resource: "ranges"}, Name: "servicenodeports"}
				f.write(ranges, newObject(t, ranges, map[string]any{"apiVersion": "v1", "kind": "RangeAllocation", "metadata": map[string]any{}, "range": "30000-32767"}))
				var writers sync.WaitGroup
				done := make(chan struct{})
				for w := range 3 {
					writers.Go(func() {
						r := rand.New(rand.NewPCG(1, uint64(w)))
						for {
							select {
							case <-done:
								return
							default:
								f.random(r, w)
							}
						}
					})
				}
				for range 10 {
					f.advance(100)
					if r := f.examine(); !r.Healthy() {
						t.Errorf("%d problems: %v", len(r.Problems), r.Problems)
					}
					if name == "pebble" {
						if err := f.Compact(t.Context(), f.Revision()); err != nil {
							t.Error(err)
						}
					}
				}
				close(done)
				writers.Wait()
				r := f.examine()
				if !r.Healthy() || r.Revision != f.Revision() || r.Objects != 1+f.Count(pods)+f.Count(nodes) {
					t.Errorf("at the end: %+v", r)
				}
				if name == "pebble" && (r.Records < r.Objects || r.Bytes == 0 || r.Compacted == 0) {
					t.Errorf("at the end: %+v", r)
				}
			})
		}
	}
}

// advance waits until others have written so much more.
func (f *fixture) advance(n object.Revision) {
	for until := f.Revision() + n; ; {
		head, changed := f.Changed()
		if head >= until {
			return
		}
		<-changed
	}
}

// random writes a random object of a writer's own.
func (f *fixture) random(r *rand.Rand, writer int) {
	key := object.Key{Resource: nodes, Name: fmt.Sprintf("n%d-%d", writer, r.IntN(20))}
	if r.IntN(2) == 0 {
		key = object.Key{Resource: pods, Namespace: fmt.Sprint("ns", writer), Name: fmt.Sprint("p", r.IntN(50))}
	}
	if was, _ := f.Get(key); was != nil && r.IntN(3) == 0 {
		f.write(key, nil)
		return
	}
	var owners []string
	for range r.IntN(3) {
		owners = append(owners, fmt.Sprintf("uid-of-n%d-%d", r.IntN(3), r.IntN(20)))
	}
	f.put(key, owners...)
}

// A state that has been recovered, with history from before, is as healthy.
func TestRecovered(t *testing.T) {
	fs := vfs.NewMem()
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 5 {
		j, err := pebble.Open(pebble.Options{Dir: "journal", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		f := newFixture(t, j, 1<<12)
		if r := f.examine(); !r.Healthy() {
			t.Errorf("round %d: %v", round, r.Problems)
		}
		for range 300 {
			f.random(r, r.IntN(3))
		}
		if round == 2 {
			if err := f.Compact(t.Context(), f.Revision()); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlantedDamage(t *testing.T) {
	a := object.Key{Resource: pods, Namespace: "ns", Name: "a"}
	b := object.Key{Resource: pods, Namespace: "ns", Name: "b"}
	tests := []struct {
		name  string
		plant func(f *fixture)
		want  []string // each in a problem of its own, and no others
	}{
		{"nothing", func(*fixture) {}, nil},
		{"no JSON", func(f *fixture) { f.put(a).Raw = []byte(`{"metadata":`) }, []string{"pods: decode pods/ns/a"}},
		{"another name", func(f *fixture) { f.write(a, newObject(f.t, a, tree(b))) }, []string{`pods/ns/a: has the name "b" and the namespace "ns" in its metadata`}},
		{"another namespace", func(f *fixture) {
			f.write(a, newObject(f.t, a, tree(object.Key{Name: "a"})))
		}, []string{`pods/ns/a: has the name "a" and the namespace "" in its metadata`}},
		{"no kind", func(f *fixture) {
			obj := tree(a)
			delete(obj, "kind")
			f.write(a, newObject(f.t, a, obj))
		}, []string{"pods/ns/a: has no kind (revision 3)"}},
		{"no uid", func(f *fixture) {
			o := f.put(a)
			*o = *newObject(f.t, a, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
				"name": "a", "namespace": "ns", "zzz": "",
			}})
			o.Revision = 3
		}, []string{"pods/ns/a: has no uid"}},
		{"space", func(f *fixture) {
			o := f.put(a)
			o.Raw = append(o.Raw, ' ')
		}, []string{"pods/ns/a: is not stored as canonical JSON"}},
		{"finalizers", func(f *fixture) { f.put(a).Meta.Finalizers = []string{"a"} }, []string{"pods/ns/a: the indexed metadata differs from that of the object"}},
		{"revision of the future", func(f *fixture) { f.put(a).Revision = 77 }, []string{
			"pods/ns/a: its revision is invalid: the store is at 3 (revision 77)",
			"pods/ns/a: its event has the object at revision 77 (revision 3)",
			"pods/ns/a: its last event left revision 3, but the store has revision 77",
		}},
		{"revision twice", func(f *fixture) { f.put(a).Revision = 2 }, []string{
			"pods: two objects have this revision (revision 2)",
			"pods/ns/a: its event has the object at revision 2 (revision 3)",
			"pods/ns/a: its last event left revision 3, but the store has revision 2",
		}},
		{"order", func(f *fixture) {
			f.put(a)
			z := f.put(b)
			*z = *newObject(f.t, object.Key{Resource: pods, Namespace: "ns", Name: "A"}, tree(object.Key{Namespace: "ns", Name: "A"}))
			z.Revision = 4
		}, []string{"pods/ns/A: is out of order in the index: it follows pods/ns/a", "pods/ns/a: is in the index, but a lookup does not find it", "pods/ns/a: its last event left revision 3, but the store has no object"}},
		{"resource", func(f *fixture) {
			f.put(object.Key{Resource: pods, Namespace: "ns", Name: "z"}).Key.Resource = nodes
		}, []string{"nodes/ns/z: its event is in the history of pods", "nodes/ns/z: is stored among the objects of pods"}},
		{"dependent that does not name the owner", func(f *fixture) {
			o := f.put(a, "uid-of-first")
			*o = *newObject(f.t, a, tree(a))
			o.Revision = 3
		}, []string{"pods/ns/a: the owner index lists it as a dependent of uid-of-first, but the object does not name that owner"}},
		{"dependent that is unknown", func(f *fixture) {
			o := f.put(a)
			*o = *newObject(f.t, a, tree(a, "uid-of-first", "elsewhere"))
			o.Revision = 3
		}, []string{"pods/ns/a: the owner index does not list it as a dependent of uid-of-first", "pods/ns/a: the owner index does not list it as a dependent of elsewhere"}},
		{"history", func(f *fixture) {
			old := f.put(a)
			f.put(a)
			old.Revision = 1
		}, []string{
			"pods/ns/a: its event has the object at revision 1 (revision 3)",
			"pods/ns/a: its event replaces revision 1, but the previous event left revision 3 (revision 4)",
		}},
		{"replaced without a write", func(f *fixture) {
			lost := newObject(f.t, a, tree(a))
			lost.Revision = 1
			f.put(a)
			f.put(a)
			c, err := f.Watch(pods, 3)
			if err != nil {
				f.t.Fatal(err)
			}
			events, _, err := c.Next(f.t.Context())
			if err != nil {
				f.t.Fatal(err)
			}
			events[0].Prev.Revision = 5
		}, []string{
			"pods/ns/a: its event has the object at revision 5 (revision 3)",
			"pods/ns/a: its event replaces revision 5, but the previous event left revision 3 (revision 4)",
		}},
		{"problems of the journal", func(f *fixture) {
			f.report = func(r *journal.Report) error {
				r.Problems = []journal.Problem{{Key: a, Revision: 3, Text: "malformed record"}, {Text: "block 7"}}
				return nil
			}
		}, []string{"pods/ns/a: malformed record (revision 3)", "block 7"}},
		{"objects are missing", func(f *fixture) {
			f.report = func(r *journal.Report) error { r.Objects--; return nil }
		}, []string{"the journal has 1 objects at revision 2, but the server has 2"}},
		{"the journal is behind", func(f *fixture) {
			f.report = func(r *journal.Report) error { r.Head = 1; return nil }
		}, []string{"the journal ends at revision 1, but the server has already served revision 2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, openPebble(t), 1<<20)
			f.put(object.Key{Resource: nodes, Name: "first"})
			f.put(object.Key{Resource: pods, Namespace: "ns", Name: "other"}, "uid-of-first")
			test.plant(f)
			r := f.examine()
			for _, want := range test.want {
				found := false
				for i, p := range r.Problems {
					if strings.HasPrefix(p.String(), want) {
						found = true
						r.Problems = append(r.Problems[:i], r.Problems[i+1:]...)
						break
					}
				}
				if !found {
					t.Errorf("lacks %q", want)
				}
			}
			for _, p := range r.Problems {
				t.Errorf("also finds %s", p)
			}
		})
	}
}

// The journal may be ahead for a moment, and its revision permanently, as that of
// etcd is.
func TestJournalAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, memory.New(), 1<<20)
		f.put(object.Key{Resource: nodes, Name: "a"})
		checks := 0
		f.report = func(r *journal.Report) error {
			checks++
			*r = journal.Report{Head: 7, Records: 2, Objects: 2}
			return nil
		}
		go func() {
			time.Sleep(75 * time.Millisecond)
			f.put(object.Key{Resource: nodes, Name: "b"})
		}()
		if r := f.examine(); !r.Healthy() || checks != 3 {
			t.Errorf("%v after %d checks", r.Problems, checks)
		}
		f.sync = context.DeadlineExceeded
		if r := f.examine(); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "the journal is at revision 7, but the server at 2: context deadline exceeded") {
			t.Errorf("%v", r.Problems)
		}
		f.sync = journal.ErrUnavailable
		if r := f.examine(); !r.Healthy() {
			t.Errorf("%v", r.Problems)
		}
	})
}

func (r reporting) Sync(context.Context) (bool, error) { return false, r.f.sync }

// What files hold is compared with the state object by object.
func TestCompare(t *testing.T) {
	f := newFixture(t, memory.New(), 1<<20)
	key := func(name string) object.Key { return object.Key{Resource: nodes, Name: name} }
	for _, name := range []string{"same", "old", "other", "lost"} {
		f.put(key(name))
	}
	get := func(name string) *object.Object {
		o, _ := f.Get(key(name))
		return o
	}
	old := newObject(t, key("old"), tree(key("old")))
	old.Revision = 1
	other := newObject(t, key("other"), tree(key("other"), "owner"))
	other.Revision = get("other").Revision
	dead := newObject(t, key("dead"), tree(key("dead")))
	dead.Revision = 9
	for _, test := range []struct {
		stored []*object.Object
		want   []string
	}{
		{[]*object.Object{get("same"), get("lost"), get("other"), get("old")}, nil},
		{[]*object.Object{get("same"), old, other, dead}, []string{
			"nodes/old: it is in the files at revision 1, but at revision 2 in the state of the server",
			"nodes/other: its content in the files differs from the state of the server (revision 3)",
			"nodes/dead: it is in the files at revision 9, but missing in the state of the server",
			"nodes/lost: a server would show it, and the files do not hold it (revision 4)",
		}},
	} {
		report := &Report{}
		err := Compare(report, f.State, func(yield func(*object.Object) error) error {
			for _, o := range test.stored {
				if err := yield(o); err != nil {
					return err
				}
			}
			return nil
		})
		var got []string
		for _, p := range report.Problems {
			got = append(got, p.String())
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%v: %s, want %s", err, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
	broken := errors.New("cannot be read")
	if err := Compare(&Report{}, f.State, func(func(*object.Object) error) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestMaxProblems(t *testing.T) {
	f := newFixture(t, memory.New(), 1<<20)
	f.report = func(r *journal.Report) error {
		r.Problems = make([]journal.Problem, MaxProblems+5)
		return nil
	}
	if r := f.examine(); len(r.Problems) != MaxProblems || r.More != 5 || r.Healthy() {
		t.Errorf("%d problems and %d more", len(r.Problems), r.More)
	}
}

// What stops an examination is no verdict.
func TestStopped(t *testing.T) {
	f := newFixture(t, memory.New(), 1<<20)
	f.put(object.Key{Resource: nodes, Name: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Examine(ctx, f.State); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := errors.New("cannot be read")
	f.report = func(*journal.Report) error { return broken }
	if _, err := Examine(t.Context(), f.State); !errors.Is(err, broken) {
		t.Errorf("unreadable: %v", err)
	}
}
