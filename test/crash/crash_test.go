package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"
)

var (
	long   = flag.Bool("long", false, "200 rounds rather than 5")
	rounds = flag.Int("rounds", 0, "how many rounds, if neither 5 nor 200")
)

func TestCrash(t *testing.T) {
	rounds := *rounds
	switch {
	case rounds > 0:
	case *long:
		rounds = 200
	default:
		rounds = 5
	}
	t.Logf("%d rounds", rounds)
	random := rand.New(rand.NewPCG(seeds.Of(t), 0))
	binary, dir := build(t), t.TempDir()

	var w world
	live := func(round int) {
		// A round reads everything that has been written, and so takes longer with the number of
		// rounds.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if random.IntN(3) == 0 {
			// This server may be killed before it serves.
			p := launch(t, binary, dir)
			<-time.After(time.Duration(random.IntN(100)) * time.Millisecond)
			p.kill()
		}
		p, c := begin(ctx, t, binary, dir)
		if round == 0 {
			w = found(ctx, t, c)
		} else if err := w.inspect(ctx, c); err != nil {
			t.Fatalf("round %d: after the restart: %v\n%s", round, err, &p.out)
		}
		if err := w.live(ctx, c, p, random); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	for round := range rounds {
		live(round)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_, c := begin(ctx, t, binary, dir)
	if err := w.inspect(ctx, c); err != nil {
		t.Fatalf("at the end: %v", err)
	}
	w.summary(t)
}

// begin starts a server and waits until it is ready.
func begin(ctx context.Context, t *testing.T, binary, dir string) (*process, *client) {
	p := launch(t, binary, dir)
	config, err := p.ready(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// A world is the expected content of the server.
type world struct {
	parts  []*part
	newest uint64 // lower bound of all later revisions
}

// A part is the expected content for one kind.
type part struct {
	kind     kind
	writers  []*writer
	markers  *writer // writes between the rounds
	first    uint64  // start of the watch
	position uint64  // position of the watch
	events   []event
}

// found creates the objects that the writers need, on an empty server.
func found(ctx context.Context, t *testing.T, c *client) (w world) {
	for path, body := range map[string]string{
		"/api/v1/namespaces": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + namespace + `"}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": definition,
	} {
		resp, err := c.send(ctx, "POST", path, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("POST %s: %s", path, resp.Status)
		}
	}
	for i, k := range kinds {
		p := &part{kind: k, markers: newWriter(k, 0, 1)}
		for id := range 4 {
			p.writers = append(p.writers, newWriter(k, 1+4*i+id, 4))
		}
		p.markers.names[0].name = fmt.Sprintf("marker-%d", i)
		var err error
		for tick := time.Tick(5 * time.Millisecond); ; <-tick { // until the kind is served
			if _, p.first, err = c.list(ctx, k); err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		p.position = p.first
		w.newest = max(w.newest, p.first)
		w.parts = append(w.parts, p)
	}
	return w
}

// live runs all writers and watchers, and kills the server meanwhile.
func (w *world) live(ctx context.Context, c *client, server *process, random *rand.Rand) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		errs   []error
		writes atomic.Int64
		enough = make(chan struct{})
		limit  = int64(1 + random.IntN(500))
	)
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	done := func() {
		if writes.Add(1) == limit {
			close(enough)
		}
	}
	for _, p := range w.parts {
		group.Go(func() {
			events, position, err := c.watch(ctx, p.kind, p.position, func(event) bool { return false })
			if !errors.Is(err, errBroken) || !server.killed.Load() {
				failed(err)
			}
			p.events, p.position = append(p.events, events...), position
		})
		for _, writer := range p.writers {
			random := rand.New(rand.NewPCG(random.Uint64(), 0))
			group.Go(func() {
				if err := writer.run(ctx, c, random, done); err != nil {
					failed(err)
				} else if !server.killed.Load() {
					failed(errors.New("a writer got no answer from a server that lives"))
				}
			})
		}
	}
	// The time must not always be right after a response, as the end of the wait is.
	moment := time.Duration(random.IntN(5000)) * time.Microsecond
	select {
	case <-enough:
		<-time.After(moment)
	case <-server.done:
		failed(fmt.Errorf("the server ended by itself:\n%s", &server.out))
	case <-ctx.Done():
		failed(ctx.Err())
	}
	server.kill()
	group.Wait()
	return errors.Join(errs...)
}

// inspect compares the content of a server after a restart with the expected one.
func (w *world) inspect(ctx context.Context, c *client) error {
	w.recall()
	var all []*history
	for _, p := range w.parts {
		if err := p.settle(ctx, c, w.newest); err != nil {
			return err
		}
		if err := p.resume(ctx, c); err != nil {
			return err
		}
		all = append(all, p.histories()...)
	}
	w.recall()
	return unique(all)
}

// recall records the highest revision in any response or event.
func (w *world) recall() {
	for _, p := range w.parts {
		w.newest = max(w.newest, p.position)
		for _, h := range p.histories() {
			for _, write := range h.writes {
				w.newest = max(w.newest, write.rv)
			}
		}
	}
}

func (p *part) histories() []*history {
	all := slices.Clone(p.markers.names)
	for _, w := range p.writers {
		all = append(all, w.names...)
	}
	return all
}

// settle reads everything, and checks every history.
func (p *part) settle(ctx context.Context, c *client, newest uint64) error {
	objects, rv, err := c.list(ctx, p.kind)
	if err != nil {
		return err
	}
	if rv < newest {
		return fmt.Errorf("the list is at resourceVersion %d, there was %d before", rv, newest)
	}
	for _, h := range p.histories() {
		if err := h.settle(objects[h.name]); err != nil {
			return err
		}
		delete(objects, h.name)
	}
	if len(objects) > 0 {
		return fmt.Errorf("found an object that was not created: %v", objects)
	}
	return nil
}

// resume continues the watch, starts another one from the beginning, and compares both with the
// histories.
func (p *part) resume(ctx context.Context, c *client) error {
	marker := p.markers.names[0]
	mark := p.markers.create
	if (marker.current() != object{}) {
		mark = p.markers.delete
	}
	if err := mark(ctx, c, marker); err != nil {
		return err
	}
	count := len(marker.writes)
	kind := marker.writes[count-1].kind
	isMarker := func(e event) bool { return e.name == marker.name && e.kind == kind }

	events, position, err := c.watch(ctx, p.kind, p.position, isMarker)
	if err != nil {
		return fmt.Errorf("resumed: %w", err)
	}
	p.events, p.position = append(p.events, events...), position
	if err := ordered(p.first, p.events); err != nil {
		return err
	}
	again, _, err := c.watch(ctx, p.kind, p.first, func(e event) bool { return e.rv >= position })
	if err != nil {
		return fmt.Errorf("from the beginning: %w", err)
	}
	if !slices.Equal(again, p.events) {
		return fmt.Errorf("from the beginning there are %d events, or others than the %d told one by one", len(again), len(p.events))
	}
	told := map[string][]event{}
	for _, e := range p.events {
		told[e.name] = append(told[e.name], e)
	}
	for _, h := range p.histories() {
		if err := h.compare(told[h.name]); err != nil {
			return err
		}
		delete(told, h.name)
	}
	if len(told) > 0 {
		return fmt.Errorf("the watch has an event that was not written: %v", told)
	}
	return nil
}

// summary describes the size of the test.
func (w *world) summary(t *testing.T) {
	count := map[outcome]int{}
	events := 0
	for _, p := range w.parts {
		events += len(p.events)
		for _, h := range p.histories() {
			for _, write := range h.writes {
				count[write.outcome]++
			}
		}
	}
	t.Logf("%d writes acknowledged, %d without an answer happened and %d did not; %d events",
		count[acknowledged], count[happened], count[void], events)
	if count[acknowledged] == 0 || events == 0 {
		t.Error("nothing was tested")
	}
}
