package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// A play is a State whose watches return what a test has written for them, one after the other.
type play struct {
	watches []*played
	asked   []string // resourceVersions
	stopped chan struct{}
}

// played is a watch of a play, or the error of Watch.
type played struct {
	refused error
	events  []local.Event
	at      string        // the resourceVersion after the events
	err     error         // after the events; nil: there are no more
	more    []local.Event // after err, from a watch that is read on
	retired chan struct{}
}

func (p *play) Stopped() <-chan struct{} { return p.stopped }

func (p *play) Watch(_ context.Context, o local.WatchOptions) (local.Watch, error) {
	p.asked = append(p.asked, o.ResourceVersion)
	if len(p.watches) == 0 {
		return nil, errors.New("the play is over")
	}
	w := p.watches[0]
	p.watches = p.watches[1:]
	return w, w.refused
}

func (w *played) Next(context.Context) ([]local.Event, <-chan struct{}, error) {
	if events := w.events; events != nil {
		w.events = nil
		return events, nil, nil
	}
	if err := w.err; err != nil && w.more != nil {
		w.events, w.more, w.err = w.more, nil, nil
		return nil, nil, err
	}
	return nil, make(chan struct{}), w.err
}

func (w *played) ResourceVersion() string  { return w.at }
func (w *played) Retired() <-chan struct{} { return w.retired }

func pod(is watch.EventType, name string, revision int) local.Event {
	return local.Event{Type: is, Object: local.Object{
		Namespace: "default", Name: name, UID: name, ResourceVersion: fmt.Sprint(revision),
		JSON: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","uid":%q,"labels":{"a":"b"}}}`, name, name),
	}}
}

var listEnds = local.Event{Type: watch.Bookmark}

// TestWatchesThatEnd checks where a follower goes on, and what its handlers receive, after the
// watches of a state have ended.
func TestWatchesThatEnd(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old resource version")
	for _, tc := range []struct {
		name    string
		watches []*played
		asked   string
		events  string
		pods    string
	}{
		{
			name: "goes on after an error",
			watches: []*played{
				{events: []local.Event{pod(watch.Added, "a", 1), listEnds, pod(watch.Added, "b", 2)}, at: "2", err: errors.New("the journal is unavailable")},
				{refused: errors.New("not yet")},
				{events: []local.Event{pod(watch.Modified, "a", 3)}, at: "3"},
			},
			asked: `"" "2" "2"`, events: "+a +b ~a", pods: "a@3 b@2",
		},
		{
			name: "lists after the history is gone",
			watches: []*played{
				{events: []local.Event{pod(watch.Added, "a", 1), pod(watch.Added, "b", 2), listEnds}, at: "2", err: expired},
				{events: []local.Event{pod(watch.Added, "b", 2), pod(watch.Added, "c", 5), listEnds}, at: "6"},
			},
			asked: `"" ""`, events: "+a +b +c -a?", pods: "b@2 c@5",
		},
		{
			name: "lists if it cannot go on",
			watches: []*played{
				{events: []local.Event{pod(watch.Added, "a", 1), listEnds}, at: "2", err: errors.New("broken")},
				{refused: expired},
				{events: []local.Event{listEnds}, at: "6"},
			},
			asked: `"" "2" ""`, events: "+a -a?", pods: "",
		},
		{
			name: "begins the list again",
			watches: []*played{
				{events: []local.Event{pod(watch.Added, "a", 1)}, at: "2", err: errors.New("broken")},
				{events: []local.Event{pod(watch.Added, "b", 3), listEnds}, at: "6"},
				{},
			},
			asked: `"" ""`, events: "+a +b -a?", pods: "b@3",
		},
		{
			name: "follows the next definition",
			watches: []*played{
				{events: []local.Event{pod(watch.Added, "a", 1), listEnds}, at: "2", retired: closed()},
				{refused: fmt.Errorf("pods: %w", local.ErrElsewhere)},
				{events: []local.Event{pod(watch.Deleted, "a", 4)}, at: "4"},
			},
			asked: `"" "2" "2"`, events: "+a -a", pods: "",
		},
		{
			name: "stays with the next definition",
			watches: []*played{
				{events: []local.Event{pod(watch.Added, "a", 1), listEnds}, at: "2", err: local.ErrRetired, retired: closed()},
				{events: []local.Event{pod(watch.Added, "b", 3)}, at: "3"},
			},
			asked: `"" "2"]`, events: "+a +b", pods: "a@1 b@3",
		},
		{
			name: "reads on if the next definition is gone, too",
			watches: []*played{
				{events: []local.Event{pod(watch.Added, "a", 1), listEnds}, at: "2", err: local.ErrRetired, more: []local.Event{pod(watch.Deleted, "a", 4)}},
				{refused: fmt.Errorf("pods: %w", local.ErrElsewhere)},
			},
			asked: `"" "2"`, events: "+a -a", pods: "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{watches: tc.watches, stopped: make(chan struct{})}
				c, h := startOn(t, p)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if got := fmt.Sprintf("%q", p.asked); !strings.HasPrefix(got, "["+tc.asked) {
					t.Errorf("watches from %s, want %s", got, tc.asked)
				}
				if got := strings.Join(h.all, " "); got != tc.events {
					t.Errorf("events %q, want %q", got, tc.events)
				}
				var list corev1.PodList
				if err := c.List(t.Context(), &list); err != nil {
					t.Fatal(err)
				}
				var pods []string
				for _, p := range list.Items {
					pods = append(pods, p.Name+"@"+p.ResourceVersion)
				}
				if got := strings.Join(pods, " "); got != tc.pods {
					t.Errorf("pods %q, want %q", got, tc.pods)
				}
			})
		})
	}
}

// TestServerThatStops checks that a follower survives its server.
func TestServerThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{watches: []*played{{events: []local.Event{pod(watch.Added, "a", 1), listEnds}, at: "1"}}, stopped: make(chan struct{})}
		c, _ := startOn(t, p)
		synctest.Wait()
		close(p.stopped)
		time.Sleep(time.Hour)
		synctest.Wait()
		if asked := len(p.asked); asked < 10 || asked > 200 {
			t.Errorf("%d watches in an hour", asked)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, &corev1.Pod{}); err != nil {
			t.Error(err)
		}
	})
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// startOn starts a cache of pods on a state, with a handler.
func startOn(t *testing.T, p *play) (Cache, *heard) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := New(&rest.Config{}, Options{State: p, Mapper: mapper, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	inf, err := c.GetInformer(t.Context(), &corev1.Pod{}, BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{}
	if _, err := inf.AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	go c.Start(t.Context()) // a handler that comes later is not told what has gone
	return c, h
}

// heard collects events: +added, ~updated, -deleted, with ? if the deletion was missed.
type heard struct{ all []string }

func (h *heard) OnAdd(o client.Object, _ bool) { h.all = append(h.all, "+"+o.GetName()) }
func (h *heard) OnUpdate(_, o client.Object)   { h.all = append(h.all, "~"+o.GetName()) }
func (h *heard) OnDelete(o client.Object, unknown bool) {
	h.all = append(h.all, "-"+o.GetName()+map[bool]string{true: "?"}[unknown])
}

// TestRecent checks that shared reads decode an object once, until enough others were decoded.
func TestRecent(t *testing.T) {
	var r recent
	entries := make([]*entry, recentObjects+10)
	for i := range entries {
		entries[i] = &entry{}
		obj := &corev1.Pod{}
		got, dropped := r.put(entries[i], obj)
		if got != obj || len(dropped) != max(0, min(1, i+1-recentObjects)) {
			t.Fatalf("object %d: another one is kept, or %d are dropped", i, len(dropped))
		}
		if got, _ := r.put(entries[i], &corev1.Pod{}); got != obj {
			t.Fatal("the first object is not kept")
		}
	}
	have := slices.IndexFunc(entries, func(e *entry) bool { return r.get(e) != nil })
	if have != 10 || len(r.objects) != recentObjects {
		t.Errorf("%d objects are kept, the first is %d", len(r.objects), have)
	}
}

// TestSoleHandler checks that an object is not kept for others when a single handler gets it at its
// start.
func TestSoleHandler(t *testing.T) {
	for handlers, want := range []int{0, 0, 1} {
		synctest.Test(t, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			p := &play{watches: []*played{{events: []local.Event{pod(watch.Added, "a", 1), listEnds}, at: "1"}}, stopped: make(chan struct{})}
			c, err := New(&rest.Config{}, Options{State: p, Mapper: mapper, Logger: slog.New(slog.DiscardHandler), UnsafeSharedEvents: true})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- c.Start(ctx) }()
			inf, err := c.GetInformer(ctx, &corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			if !c.WaitForCacheSync(ctx) {
				t.Fatal("no sync")
			}
			for range handlers {
				h := &heard{}
				if _, err := inf.AddEventHandler(h); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !slices.Equal(h.all, []string{"+a"}) {
					t.Errorf("%d handlers: one has heard %q", handlers, h.all)
				}
			}
			if got := len(inf.(*informer).kind.recent.all()); got != want {
				t.Errorf("%d handlers: %d objects are kept, want %d", handlers, got, want)
			}
			stop()
			<-ended
		})
	}
}

// TestMutations checks that a change of an object that is shared with the cache is detected.
func TestMutations(t *testing.T) {
	for _, change := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			p := &play{watches: []*played{{events: []local.Event{pod(watch.Added, "a", 1), listEnds}, at: "1"}}, stopped: make(chan struct{})}
			var found []string
			c, err := New(&rest.Config{}, Options{State: p, Mapper: mapper, Logger: slog.New(slog.DiscardHandler),
				MutationDetected: func(kind schema.GroupVersionKind, key client.ObjectKey, diff string) {
					found = append(found, kind.Kind+" "+key.String()+diff)
				}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- c.Start(ctx) }()
			if !c.WaitForCacheSync(ctx) {
				t.Fatal("no sync")
			}
			var list corev1.PodList
			if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
				t.Fatal(err)
			}
			var got corev1.Pod
			if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &got, client.UnsafeDisableDeepCopy); err != nil {
				t.Fatal(err)
			}
			list.Items[0].Labels["app"] = "web"
			if !change {
				delete(list.Items[0].Labels, "app")
			}
			stop()
			<-ended
			if (len(found) == 1) != change {
				t.Errorf("changed: %t, found %q", change, found)
			}
		})
	}
}
