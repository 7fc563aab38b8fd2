package crd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/webhook"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// group is the shared knowledge of two servers on one state.
type group struct {
	mu      sync.Mutex
	leader  string
	serves  map[string]object.Revision
	changed chan struct{}
	said    int // number of calls of Serves
}

func (g *group) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	close(g.changed)
	g.changed = make(chan struct{})
}

type member struct {
	*group
	name string
	mute bool // does not report what it serves
}

func (m *member) Leads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader == m.name
}

func (m *member) Serves(r object.Revision) {
	if !m.mute {
		m.set(func() { m.serves[m.name] = max(m.serves[m.name], r); m.said++ })
	}
}

func (m *member) AllServe(r object.Revision) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, serves := range m.serves {
		if name != m.name && serves < r {
			return false
		}
	}
	return true
}

func (m *member) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// TestEstablishedEverywhere checks that the leader establishes a definition once all servers serve
// it.
func TestEstablishedEverywhere(t *testing.T) {
	g := &group{leader: "a", serves: map[string]object.Revision{"a": 0, "b": 0}, changed: make(chan struct{})}
	a, b := &member{group: g, name: "a"}, &member{group: g, name: "b", mute: true}
	s := newServer(t)
	s.controller.Close()
	start := func(m *member) (*Controller, *resource.Registry) {
		store := resource.NewStore(s.store.State(), resource.NewRegistry(namespaceKind(), Definition(true)))
		c, err := Start(context.Background(), store, m, webhook.Options{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c, store.Registry()
	}
	controllerA, registryA := start(a)
	controllerB, registryB := start(b)
	served := func(r *resource.Registry) bool {
		return r.Load().Resource(schema.GroupResource{Group: "example.com", Resource: "widgets"}) != nil
	}
	s.mustCreate(simple("widgets", "Widget"))
	s.wait("accepted names", func() bool {
		d := s.crd("widgets.example.com")
		return d.is(apiextensionsv1.NamesAccepted) && d.installing()
	})
	revision := s.store.State().Revision()
	for _, c := range []*Controller{controllerA, controllerB} {
		if err := c.Reach(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	if !served(registryA) || !served(registryB) {
		t.Errorf("a serves it: %t, b: %t", served(registryA), served(registryB))
	}
	// b reports nothing; other changes among the peers must not end a's wait.
	g.set(func() {})
	if d := s.crd("widgets.example.com"); d.is(apiextensionsv1.Established) {
		t.Error("established before b reported that it serves it")
	}
	g.set(func() { g.serves["b"] = revision })
	s.wait("establishment", func() bool { return s.crd("widgets.example.com").is(apiextensionsv1.Established) })

	// b becomes the leader while another definition is undecided.
	g.set(func() { g.leader = "" })
	s.mustCreate(simple("gadgets", "Gadget"))
	if err := controllerB.Reach(t.Context(), s.store.State().Revision()); err != nil {
		t.Fatal(err)
	}
	if d := s.crd("gadgets.example.com"); len(d.Status.Conditions) > 0 {
		t.Errorf("names were accepted without a leader: %v", d.Status.Conditions)
	}
	g.set(func() { g.leader = "b" })
	s.wait("establishment by b", func() bool { return s.crd("gadgets.example.com").is(apiextensionsv1.Established) })
}

// TestNoEndlessTalk checks that the reports of servers, which are writes to the store themselves,
// cause no further reports.
func TestNoEndlessTalk(t *testing.T) {
	g := &group{leader: "a", serves: map[string]object.Revision{}, changed: make(chan struct{})}
	s := newServer(t)
	s.controller.Close()
	store := resource.NewStore(s.store.State(), resource.NewRegistry(namespaceKind(), Definition(true)))
	c, err := Start(context.Background(), store, &member{group: g, name: "a"}, webhook.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	words := 0
	said := func() int {
		words++
		o, err := object.New(object.Key{Resource: schema.GroupResource{Resource: "namespaces"}, Name: fmt.Sprint("word-", words)},
			resource.Tree{"metadata": resource.Tree{"uid": "x"}}, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s.append(o)
		g.set(func() {})
		if err := c.Reach(t.Context(), s.store.State().Revision()); err != nil {
			t.Fatal(err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.said
	}
	before := said()
	for range 10 {
		if now := said(); now != before {
			t.Fatalf("%d reports after %d, although no definition changed", now, before)
		}
	}
}

// TestReach waits for a revision of the whole store, even if no definition changes.
func TestReach(t *testing.T) {
	s := newServer(t)
	at := s.store.State().Revision()
	if err := s.controller.Reach(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.controller.Reach(ctx, at+100); err == nil {
		t.Error("reached a revision that does not exist yet")
	}
}

// TestLapse lets the lead lapse and come back between two looks of the controller.
func TestLapse(t *testing.T) {
	g := &group{leader: "a", serves: map[string]object.Revision{}, changed: make(chan struct{})}
	s := newServer(t)
	s.controller.Close()
	store := resource.NewStore(s.store.State(), resource.NewRegistry(namespaceKind(), Definition(true)))
	c, err := Start(context.Background(), store, &member{group: g, name: "a", mute: true}, webhook.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	reach := func() {
		t.Helper()
		if err := c.Reach(t.Context(), s.store.State().Revision()); err != nil {
			t.Fatal(err)
		}
	}
	reach()
	g.mu.Lock()
	g.leader = ""
	g.mu.Unlock()
	s.mustCreate(simple("widgets", "Widget"))
	reach()
	g.set(func() { g.leader = "a" })
	s.wait("a decision", func() bool { return s.crd("widgets.example.com").is(apiextensionsv1.Established) })
}
