package aggregate

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/forward"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const (
	probeInterval = 30 * time.Second
	firstProbe    = 5 * time.Millisecond // after a failure; it doubles with each further one
	// probeAttempts requests are sent at the same time, of which one has to succeed: a service can
	// have many endpoints.
	probeAttempts = 5
)

var (
	services       = schema.GroupResource{Resource: "services"}
	endpointSlices = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
)

// Probes writes the condition Available of APIServices that name a service.
type Probes struct {
	options Options
	state   *state.State
	dialer  *forward.Dialer

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	running  map[string]*probe  // by the name of the APIService
	unfollow context.CancelFunc // ends the feed of services; nil while there are no probes
}

// A probe keeps the condition of one APIService up to date.
type probe struct {
	stop context.CancelFunc
	poke chan struct{} // of capacity 1
	of   *registration // guarded by the lock of Probes
}

// StartProbes starts a probe for each APIService that names a service, until Close.
func StartProbes(o Options) (*Probes, error) {
	o.complete()
	p := &Probes{options: o, state: o.Store.State(), dialer: forward.NewDialer(o.Dial), running: map[string]*probe{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	cursor, err := p.state.Watch(Resource, p.state.Revision())
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", Resource, err)
	}
	p.reload()
	p.done.Go(func() { follow(p.ctx, p.state, cursor, o.Logger, p.reload) })
	return p, nil
}

// Close ends all probes, waits for them and closes their connections.
func (p *Probes) Close() {
	p.stop()
	p.dialer.Close()
	p.done.Wait()
}

// reload starts and ends probes, so that there is one for each APIService with a service.
func (p *Probes) reload() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	last := map[string]*registration{}
	for name, one := range p.running {
		last[name] = one.of
	}
	all := registrationsIn(p.state, last, p.options.Logger)
	for name, one := range p.running {
		if all[name] == nil {
			one.stop()
			delete(p.running, name)
		}
	}
	if len(all) > 0 && p.unfollow == nil {
		p.followServices()
	}
	for name, r := range all {
		one := p.running[name]
		switch {
		case one == nil:
			one = &probe{poke: make(chan struct{}, 1), of: r}
			var ctx context.Context
			ctx, one.stop = context.WithCancel(p.ctx)
			p.running[name] = one
			p.done.Go(func() { p.run(ctx, one) })
		case one.of != r:
			// A change of the status only, most likely by this probe, needs no new probe.
			again := one.of.UID != r.UID || one.of.available() != r.available() || !reflect.DeepEqual(one.of.Spec, r.Spec)
			if one.of = r; again {
				one.wake()
			}
		}
	}
	if len(all) == 0 && p.unfollow != nil {
		p.unfollow()
		p.unfollow = nil
	}
}

func (one *probe) wake() {
	select {
	case one.poke <- struct{}{}:
	default:
	}
}

// followServices wakes the probes of services whose objects change, until p.unfollow is called.
func (p *Probes) followServices() {
	feed := p.state.Feed(func(e *state.Event) bool {
		r := e.Last().Key.Resource
		return r == services || r == endpointSlices
	})
	var ctx context.Context
	ctx, p.unfollow = context.WithCancel(p.ctx)
	p.done.Go(func() {
		defer feed.Close()
		for ctx.Err() == nil {
			events, wait := feed.Take()
			for _, e := range events {
				p.wake(e.Last())
			}
			if len(events) > 0 {
				continue
			}
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
	})
}

// wake wakes the probes of the service that an object belongs to.
func (p *Probes) wake(o *object.Object) {
	name := o.Key.Name
	if o.Key.Resource == endpointSlices {
		name = o.Meta.Labels.Get(discoveryv1.LabelServiceName)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.running {
		if s := one.of.Spec.Service; s.Namespace == o.Key.Namespace && s.Name == name {
			one.wake()
		}
	}
}

func (p *Probes) run(ctx context.Context, one *probe) {
	var b *backend
	defer func() {
		if b != nil {
			b.CloseIdle()
		}
	}()
	pause := firstProbe
	for ctx.Err() == nil {
		p.mu.Lock()
		r := one.of
		p.mu.Unlock()
		if key := keyOf(r); b == nil || b.key != key {
			if b != nil {
				b.CloseIdle()
			}
			b = newBackend(key, p.dialer, &p.options)
		}
		condition, err := p.check(ctx, r, b)
		if ctx.Err() != nil {
			return
		}
		if condition != nil {
			if failure := writeCondition(ctx, p.options.Store, r.Name, r.UID, condition); failure != nil {
				err = failure
			}
		}
		wait := probeInterval
		if err != nil {
			wait = pause
			pause = min(2*pause, probeInterval)
			p.options.Logger.Debug("APIService is not available", "name", r.Name, "error", err)
		} else {
			pause = firstProbe
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-one.poke:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// check returns the condition of an APIService; nil if it cannot be determined. An error means that
// the check is retried soon.
func (p *Probes) check(ctx context.Context, r *registration, b *backend) (*apiregistrationv1.APIServiceCondition, error) {
	ref := r.Spec.Service
	no := func(reason, format string, args ...any) *apiregistrationv1.APIServiceCondition {
		return &apiregistrationv1.APIServiceCondition{
			Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...),
		}
	}
	o, _ := p.state.Get(object.Key{Resource: services, Namespace: ref.Namespace, Name: ref.Name})
	if o == nil {
		return no("ServiceNotFound", "service/%s in %q is not present", ref.Name, ref.Namespace), nil
	}
	var service corev1.Service
	if err := json.Unmarshal(o.Raw, &service); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		i := slices.IndexFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Port == b.key.port })
		if i < 0 {
			return no("ServicePortError", "service/%s in %q is not listening on port %d", ref.Name, ref.Namespace, b.key.port), nil
		}
		port := service.Spec.Ports[i].Name
		switch all := p.slices(ref); {
		case len(all) == 0:
			return no("EndpointsNotFound", "cannot find endpointslices for service/%s in %q", ref.Name, ref.Namespace), nil
		case !slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool { return isReady(s, port) }):
			return no("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", ref.Name, ref.Namespace, port), nil
		}
	}
	if b.broken != nil {
		return nil, b.broken
	}
	if err := p.answers(ctx, b, r.groupVersion()); err != nil {
		return no("FailedDiscoveryCheck", "%s", err.Error()), err
	}
	return &apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, Reason: "Passed", Message: "all checks passed",
	}, nil
}

func (p *Probes) slices(ref *apiregistrationv1.ServiceReference) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	for o := range p.state.Snapshot(endpointSlices).All(ref.Namespace) {
		s := &discoveryv1.EndpointSlice{}
		if o.Meta.Labels.Get(discoveryv1.LabelServiceName) == ref.Name && json.Unmarshal(o.Raw, s) == nil {
			all = append(all, s)
		}
	}
	return all
}

func isReady(s *discoveryv1.EndpointSlice, port string) bool {
	return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Conditions.Ready == nil || *e.Conditions.Ready
	}) && slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name == port && p.Port != nil
	})
}

// answers returns nil if a backend serves the discovery document of a group version. The first
// success counts; slower attempts are not cancelled, because servers log cancelled requests as
// errors.
func (p *Probes) answers(ctx context.Context, b *backend, gv schema.GroupVersion) error {
	results := make(chan error, probeAttempts)
	for range probeAttempts {
		p.done.Go(func() { results <- b.attempt(ctx, gv) })
	}
	var last error
	for range probeAttempts {
		if last = <-results; last == nil {
			return nil
		}
	}
	b.CloseIdle() // the next attempt may reach another endpoint
	return last
}

func (b *backend) attempt(ctx context.Context, gv schema.GroupVersion) error {
	answer, where, err := b.get(ctx, discoveryPath(gv), "", "")
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 300 {
		return fmt.Errorf("failing or missing response from %s: bad status from %s: %d", where, where, answer.StatusCode)
	}
	return nil
}
