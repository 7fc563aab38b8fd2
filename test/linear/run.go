package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A run is the state that the clients and watchers of one run share.
type run struct {
	config    Config
	t         testing.TB
	namespace string
	start     time.Time
	slots     slots
	board     board
	progress  chan struct{} // of any watcher
	missing   atomic.Int64  // operations until the minimum is reached
	enough    chan struct{} // closed when it is reached

	mu       sync.Mutex
	failures int
	ending   bool // watchers no longer go back
}

func (r *run) now() time.Duration { return time.Since(r.start) }

func (r *run) endpoint(random *rand.Rand) *Endpoint {
	return r.config.Endpoints[random.IntN(len(r.config.Endpoints))]
}

// fail fails the test, and logs the first few errors.
func (r *run) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures++; r.failures <= 10 {
		r.t.Errorf(format, args...)
	}
}

// Run runs the workload of config, and returns its history. It ends the test if there is no history
// to check.
func Run(t testing.TB, config Config) *Report {
	t.Helper()
	config.complete(t)
	t.Logf("%d clients, %d endpoints, %v, seed %d", config.Clients, len(config.Endpoints), config.Duration, config.Seed)
	r := &run{
		config: config, t: t, start: time.Now(),
		namespace: fmt.Sprintf("linear-%x", config.Seed),
		slots:     slots{life: int64(config.KeyLife), uses: make([]atomic.Int64, max(config.Keys, len(kinds)))},
		board:     board{keys: map[Key]Object{}},
		progress:  make(chan struct{}, 1), enough: make(chan struct{}),
	}
	r.missing.Store(int64(config.Operations))
	report := &Report{Seed: config.Seed, First: map[Kind]Revision{}, Final: map[Kind]Revision{}}
	ctx, cancel := context.WithTimeout(t.Context(), config.Settle)
	err := r.prepare(ctx, report)
	cancel()
	if err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewPCG(config.Seed, 0))
	newClient := func(id int) client {
		return client{run: r, id: id, random: rand.New(rand.NewPCG(config.Seed, uint64(id)+1)), seen: map[Key]Object{}}
	}
	var clients []*client
	for id := range config.Clients {
		c := newClient(id)
		clients = append(clients, &c)
	}
	var watchers []*watcher
	for i := range len(kinds) * config.Watchers {
		id := config.Clients + i
		watchers = append(watchers, &watcher{client: newClient(id), kind: kinds[i%len(kinds)], restless: i >= len(kinds)})
	}

	if config.Witness != nil {
		for _, k := range kinds {
			c := newClient(config.Clients + len(watchers))
			c.only = config.Witness
			watchers = append(watchers, &watcher{client: c, kind: k})
		}
	}

	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	var watches sync.WaitGroup
	for _, w := range watchers {
		watches.Go(func() { w.work(watching, report.First[w.kind]) })
	}
	begin := time.Now()
	r.load(t.Context(), clients, random)
	report.Elapsed = time.Since(begin)

	ctx, cancel = context.WithTimeout(t.Context(), config.Settle)
	defer cancel()
	final := newClient(config.Clients + len(watchers))
	if err := r.finish(ctx, &final, report); err != nil {
		t.Errorf("after the load: %v", err)
	}
	r.mu.Lock()
	r.ending = true
	r.mu.Unlock()
	r.await(ctx, watchers, report.Final)
	stopWatching()
	watches.Wait()
	for _, c := range append(clients, &final) {
		report.Operations = append(report.Operations, c.history...)
	}
	for _, w := range watchers {
		report.Operations = append(report.Operations, w.history...)
		report.Streams = append(report.Streams, w.streams...)
		report.Connections += w.connections
		report.Relists += w.relists
	}
	return report
}

// prepare creates the objects that the clients need, and waits until all endpoints serve them.
func (r *run) prepare(ctx context.Context, report *Report) error {
	e := r.config.Endpoints[0]
	for path, body := range map[string]string{
		"/api/v1/namespaces": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + r.namespace + `"}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": definition,
	} {
		status, answer, err := e.do(ctx, http.MethodPost, path, "application/json", body)
		if err != nil {
			return fmt.Errorf("POST %s: %w", path, err)
		}
		if status != http.StatusCreated && status != http.StatusConflict {
			return fmt.Errorf("POST %s: %d %s", path, status, answer.Message)
		}
	}
	for _, k := range kinds {
		for _, e := range r.config.all() {
			if err := r.served(ctx, e, k, report.First); err != nil {
				return err
			}
		}
	}
	return nil
}

// served waits until an endpoint serves a kind, and records its revision unless another endpoint
// has.
func (r *run) served(ctx context.Context, e *Endpoint, k Kind, first map[Kind]Revision) error {
	for {
		status, answer, err := e.do(ctx, http.MethodGet, k.collection(r.namespace), "", "")
		switch {
		case err == nil && status == http.StatusOK && len(answer.Items) > 0:
			return fmt.Errorf("%s in %s: there are some already", k, r.namespace)
		case err == nil && status == http.StatusOK:
			first[k] = either(first[k], answer.revision())
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s does not serve %s: %d %s: %w", e.Name, k, status, answer.Message, ctx.Err())
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// load runs clients and nemeses.
func (r *run) load(ctx context.Context, clients []*client, random *rand.Rand) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := time.After(r.config.Duration)
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { c.work(ctx) })
	}
	for _, n := range r.config.Nemeses {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		all.Go(func() {
			if err := n(ctx, random); err != nil {
				r.fail("nemesis: %v", err)
			}
		})
	}
	<-over
	select {
	case <-r.enough:
	case <-time.After(r.config.Settle):
		r.fail("of %d operations %d are missing, and there is no hope", r.config.Operations, r.missing.Load())
	}
	cancel()
	all.Wait()
}

// finish writes one more object of each kind, which all watchers must receive, and reads everything
// once from each endpoint.
func (r *run) finish(ctx context.Context, c *client, report *Report) error {
	for _, k := range kinds {
		for n := 0; report.Final[k] == 0; n++ {
			value := fmt.Sprintf("final-%s-%d", k, n)
			o := Operation{Client: c.id, Verb: Create, Key: Key{k, value}, Value: value}
			c.perform(ctx, &o)
			if report.Final[k] = o.Object.Revision; ctx.Err() != nil {
				return fmt.Errorf("no %s can be written: %v", k, &o)
			}
			if o.Outcome != Done {
				r.pause(ctx, c.random)
			}
		}
		for _, e := range r.config.Endpoints {
			for o := (Operation{}); o.Outcome != Done; {
				o = Operation{Client: c.id, Endpoint: e.Name, Verb: List, Key: Key{Kind: k}, Mode: Latest}
				c.list(ctx, e, &o)
				c.history = append(c.history, o)
				if ctx.Err() != nil {
					return fmt.Errorf("%s cannot be listed at %s: %v", k, e.Name, &o)
				}
			}
		}
	}
	return nil
}

// await waits until all watchers have received the last writes. The check reports one that has not.
func (r *run) await(ctx context.Context, watchers []*watcher, final map[Kind]Revision) {
	behind := func(w *watcher) bool { return Revision(w.position.Load()) < final[w.kind] }
	for slices.ContainsFunc(watchers, behind) {
		select {
		case <-r.progress:
		case <-ctx.Done():
			return
		}
	}
}
