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

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Resource are the APIServices.
var Resource = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}

// Options say how other servers are reached. Only Store is required.
type Options struct {
	Store *resource.Store
	// Services finds the services that APIServices name. Default: those in the store.
	Services webhook.Services
	// ClientCertificate is shown to other servers. Default: none is.
	ClientCertificate ClientCertificate
	// Dial opens connections. Default: those of the operating system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets what goes wrong. Default: slog.Default().
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

// An Aggregator knows what other servers serve. Its methods are safe for concurrent use.
type Aggregator struct {
	options Options
	state   *state.State
	dialer  *dialer
	set     atomic.Pointer[Set] // nil where nobody else serves anything

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu            sync.Mutex
	registrations map[string]*registration // by name
	inquiries     map[backendKey]*inquiry
}

// An inquiry asks one backend what it serves, again and again.
type inquiry struct {
	*backend
	stop context.CancelFunc
	poke chan struct{} // of capacity 1

	// Guarded by the Aggregator's lock.
	versions []schema.GroupVersion // that are asked for
	last     *described            // nil if the backend could not be asked
	tells    *Documents            // likewise, when it was asked first
}

// Start begins to follow the APIServices of a store. Those that are there count when it returns.
func Start(o Options) (*Aggregator, error) {
	o.complete()
	a := &Aggregator{
		options: o, state: o.Store.State(), dialer: newDialer(o.Dial),
		registrations: map[string]*registration{}, inquiries: map[backendKey]*inquiry{},
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	cursor, err := a.state.Watch(Resource, a.state.Revision())
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", Resource, err)
	}
	a.reload()
	a.done.Go(func() {
		follow(a.ctx, a.state, cursor, a.options.Logger, a.reload)
	})
	return a, nil
}

// Load returns what other servers serve now; nil if there are none, or a is nil.
func (a *Aggregator) Load() *Set {
	if a == nil {
		return nil
	}
	return a.set.Load()
}

// Close ends all that the Aggregator does, and its connections. Requests that are under way break off.
func (a *Aggregator) Close() {
	a.stop()
	a.dialer.close()
	a.done.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range a.inquiries {
		i.release()
	}
}

// follow calls changed after each change that a cursor shows, until ctx is done.
func follow(ctx context.Context, s *state.State, cursor *state.Cursor, log *slog.Logger, changed func()) {
	for ctx.Err() == nil {
		events, wait, err := cursor.Next(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			// Most likely too far behind the history. The cursor comes first: what happens meanwhile is seen twice, not never.
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

// registrationsIn returns the APIServices that name a service, by name. Those of last that have not changed stay as they are.
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

// serviceMark is in every APIService that names a service, and in few others.
const serviceMark = `"service":{`

// register reads an APIService; nil if it names no service.
func register(o *object.Object) (*registration, error) {
	if !bytes.Contains(o.Raw, []byte(serviceMark)) { // most do not, and are not worth more of a look
		return nil, nil
	}
	r := &registration{object: o}
	if err := json.Unmarshal(o.Raw, &r.APIService); err != nil || r.Spec.Service == nil {
		return nil, err
	}
	return r, nil
}

// reload brings all up to date with the APIServices of now.
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

// inquire begins to ask a backend.
func (a *Aggregator) inquire(key backendKey, versions []schema.GroupVersion) {
	i := &inquiry{backend: newBackend(key, a.dialer, &a.options), poke: make(chan struct{}, 1), versions: versions}
	var ctx context.Context
	ctx, i.stop = context.WithCancel(a.ctx)
	a.inquiries[key] = i
	a.done.Go(func() {
		defer i.release()
		a.ask(ctx, i)
	})
}

// ask keeps what is known of a backend up to date.
func (a *Aggregator) ask(ctx context.Context, i *inquiry) {
	pause := firstRefresh
	for ctx.Err() == nil {
		a.mu.Lock()
		versions, last, tells := i.versions, i.last, i.tells
		a.mu.Unlock()
		next, err := i.describe(ctx, versions, last)
		if next != nil { // it answers
			tells = i.documents(ctx, versions, tells)
		}
		if ctx.Err() != nil {
			return
		}
		wait := refreshInterval
		if err != nil {
			wait = pause
			pause = min(2*pause, refreshInterval)
			a.options.Logger.Debug("cannot ask a server what it serves", "service", i.key.String(), "error", err)
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

// publishLocked makes what is known visible, if it has changed.
func (a *Aggregator) publishLocked() {
	if len(a.registrations) == 0 {
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
	if !maps.Equal(old, next) {
		a.set.Store(&Set{remotes: next})
	}
}

// of is what is known of a group version. A server that could not be asked has it, but nobody knows what is in it.
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
