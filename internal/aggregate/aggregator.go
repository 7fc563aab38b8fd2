package aggregate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/forward"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Resource is the group and the plural name of APIServices.
var Resource = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// Options configure an Aggregator or Probes. Only Store is required.
type Options struct {
	Store *resource.Store
	// Services resolves the services that APIServices name. Default: those in the store.
	Services webhook.Services
	// ClientCertificate returns the certificate for other servers. Default: none is sent.
	ClientCertificate ClientCertificate
	// Dial opens connections. Default: the operating system's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Inside are the group versions that handlers in this process serve, over connections that the
	// functions open: plain HTTP in memory. An APIService that names a service takes precedence.
	Inside map[schema.GroupVersion]func(context.Context) (net.Conn, error)
	// Logger receives errors. Default: slog.Default().
	Logger *slog.Logger
}

func (o *Options) complete() {
	if o.Services == nil {
		o.Services = webhook.InState(o.Store.State())
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// An Aggregator knows which group versions other servers serve. Its methods are safe for concurrent
// use.
type Aggregator struct {
	options Options
	state   *state.State
	dialer  *forward.Dialer
	inside  []*inside
	set     atomic.Pointer[Set] // nil if other servers serve nothing

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu            sync.Mutex
	registrations map[string]*registration // by name
	inquiries     map[backendKey]*inquiry
}

// An inquiry periodically requests the discovery documents of one backend.
type inquiry struct {
	*backend
	stop context.CancelFunc
	poke chan struct{} // of capacity 1

	// Guarded by the Aggregator's lock.
	versions []schema.GroupVersion // to request
	last     *described            // nil if the backend did not answer
	tells    *Documents            // nil before its first answer
}

// Start follows the APIServices of a store until Close. APIServices that exist already are loaded
// when it returns, and the handlers of Options.Inside are served. An error of their discovery
// documents is returned.
func Start(o Options) (*Aggregator, error) {
	o.complete()
	a := &Aggregator{
		options: o, state: o.Store.State(), dialer: forward.NewDialer(o.Dial),
		registrations: map[string]*registration{}, inquiries: map[backendKey]*inquiry{},
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	for gv, connect := range o.Inside {
		in, err := newInside(a.ctx, gv, connect)
		a.inside = append(a.inside, in)
		if err != nil {
			a.Close()
			return nil, err
		}
	}
	cursor, err := a.state.Watch(Resource, a.state.Revision())
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("follow %s: %w", Resource, err)
	}
	a.reload()
	a.done.Go(func() {
		follow(a.ctx, a.state, cursor, a.options.Logger, a.reload)
	})
	return a, nil
}

// Load returns the group versions that other servers serve now; nil if there are none, or a is nil.
func (a *Aggregator) Load() *Set {
	if a == nil {
		return nil
	}
	return a.set.Load()
}

// Close ends the Aggregator's goroutines and waits for them. It closes all connections, which
// breaks requests under way.
func (a *Aggregator) Close() {
	a.stop()
	a.dialer.Close()
	for _, in := range a.inside {
		in.dialer.Close()
	}
	a.done.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range a.inquiries {
		i.CloseIdle()
	}
}

// follow calls changed after each change that a cursor shows, until ctx is done.
func follow(ctx context.Context, s *state.State, cursor *state.Cursor, log *slog.Logger, changed func()) {
	for ctx.Err() == nil {
		events, wait, err := cursor.Next(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			// The cursor fell behind the bounded history. The new one is opened before changed
			// reads the state, so that a change between them is seen twice rather than never.
			log.Warn("lost the history of APIServices", "error", err)
			if next, err := s.Watch(Resource, s.Revision()); err == nil {
				cursor = next
			}
			rest(ctx, firstRefresh)
			changed()
		case len(events) > 0:
			changed()
		default:
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
	}
}

func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// registrationsIn returns the APIServices that name a service, by name. It reuses the unchanged
// ones of last.
func registrationsIn(s *state.State, last map[string]*registration, log *slog.Logger) map[string]*registration {
	all := map[string]*registration{}
	for o := range s.Snapshot(Resource).All("") {
		if known := last[o.Key.Name]; known != nil && known.object == o {
			all[o.Key.Name] = known
		} else if r, err := register(o); err != nil {
			log.Error("cannot read APIService", "name", o.Key.Name, "error", err)
		} else if r != nil {
			all[o.Key.Name] = r
		}
	}
	return all
}

// serviceMark occurs in every APIService that names a service, and in few others.
const serviceMark = `"service":{`

// register decodes an APIService; it returns nil if it names no service.
func register(o *object.Object) (*registration, error) {
	if !bytes.Contains(o.Raw, []byte(serviceMark)) { // avoids decoding most APIServices
		return nil, nil
	}
	r := &registration{object: o}
	if err := json.Unmarshal(o.Raw, &r.APIService); err != nil || r.Spec.Service == nil {
		return nil, err
	}
	return r, nil
}

// reload starts and ends inquiries for the APIServices in the store, and publishes the set.
func (a *Aggregator) reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	last := a.registrations
	a.registrations = registrationsIn(a.state, last, a.options.Logger)
	versions, changed := map[backendKey][]schema.GroupVersion{}, map[backendKey]bool{}
	for name, r := range a.registrations {
		key := keyOf(r)
		versions[key] = append(versions[key], r.groupVersion())
		changed[key] = changed[key] || last[name] != r
	}
	for key, i := range a.inquiries {
		if versions[key] == nil {
			i.stop()
			delete(a.inquiries, key)
		}
	}
	for key, wanted := range versions {
		i := a.inquiries[key]
		if i == nil {
			a.inquire(key, wanted)
			continue
		}
		i.versions = wanted
		if changed[key] {
			select {
			case i.poke <- struct{}{}:
			default:
			}
		}
	}
	a.publishLocked()
}

// inquire starts the inquiry of a backend.
func (a *Aggregator) inquire(key backendKey, versions []schema.GroupVersion) {
	i := &inquiry{backend: newBackend(key, a.dialer, &a.options), poke: make(chan struct{}, 1), versions: versions}
	var ctx context.Context
	ctx, i.stop = context.WithCancel(a.ctx)
	a.inquiries[key] = i
	a.done.Go(func() {
		defer i.CloseIdle()
		a.ask(ctx, i)
	})
}

// ask requests the documents of a backend until ctx is done: every refreshInterval, with backoff
// after a failure, and when poked.
func (a *Aggregator) ask(ctx context.Context, i *inquiry) {
	pause := firstRefresh
	for ctx.Err() == nil {
		a.mu.Lock()
		versions, last, tells := i.versions, i.last, i.tells
		a.mu.Unlock()
		next, err := i.describe(ctx, versions, last)
		if next != nil { // the backend answers
			tells = i.documents(ctx, versions, tells)
		}
		if ctx.Err() != nil {
			return
		}
		wait := refreshInterval
		if err != nil {
			wait = pause
			pause = min(2*pause, refreshInterval)
			a.options.Logger.Debug("cannot read the discovery documents of a backend", "service", i.key.String(), "error", err)
		} else {
			pause = firstRefresh
		}
		a.mu.Lock()
		i.last, i.tells = next, tells
		a.publishLocked()
		a.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-i.poke:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// publishLocked stores the new set if it differs.
func (a *Aggregator) publishLocked() {
	if len(a.registrations) == 0 && len(a.inside) == 0 {
		a.set.Store(nil)
		return
	}
	old := a.set.Load().All()
	next := make(map[schema.GroupVersion]*Remote, len(a.registrations))
	for _, r := range a.registrations {
		gv, i := r.groupVersion(), a.inquiries[keyOf(r)]
		m := &Remote{
			GroupVersion:  gv,
			GroupPriority: int(r.Spec.GroupPriorityMinimum), VersionPriority: int(r.Spec.VersionPriority),
			Discovery: i.last.of(gv),
			available: r.available(), backend: i.backend, documents: i.tells,
		}
		if before := old[gv]; before != nil && reflect.DeepEqual(before.Discovery, m.Discovery) {
			m.Discovery = before.Discovery
			if *before == *m {
				m = before
			}
		}
		next[gv] = m
	}
	for _, in := range a.inside {
		if next[in.GroupVersion] == nil {
			next[in.GroupVersion] = in.Remote
		}
	}
	if !maps.Equal(old, next) {
		a.set.Store(&Set{remotes: next})
	}
}

// of returns the discovery document of a group version. It is stale and empty if the backend has
// not answered.
func (d *described) of(gv schema.GroupVersion) *apidiscoveryv2.APIVersionDiscovery {
	v := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessStale}
	if d == nil {
		return &v
	}
	switch known := d.versions[gv]; {
	case known != nil:
		v = *known
	case !d.whole:
		return &v
	}
	v.Freshness = apidiscoveryv2.DiscoveryFreshnessCurrent
	return &v
}
