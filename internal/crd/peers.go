package crd

import (
	"context"
	"math"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Peers are the other servers on the same journal. All serve accepted definitions; one of them, the
// leader, accepts them.
type Peers interface {
	// Leads reports whether this server is the leader: the one that accepts names, establishes and
	// deletes.
	Leads() bool
	// Serves reports to the others that this server serves the definitions as of a revision.
	Serves(object.Revision)
	// AllServe reports whether all other servers serve the definitions as of a revision.
	AllServe(object.Revision) bool
	// Changed returns a channel that is closed when the result of Leads or AllServe may have
	// changed; nil if it never changes.
	Changed() <-chan struct{}
}

// alone implements Peers for a server without others.
type alone struct{}

func (alone) Leads() bool                   { return true }
func (alone) Serves(object.Revision)        {}
func (alone) AllServe(object.Revision) bool { return true }
func (alone) Changed() <-chan struct{}      { return nil }

// everywhere reports whether all servers serve a definition that is about to be established. A
// server that has seen the accepted names serves it.
func (c *Controller) everywhere(m *manifest) bool {
	if c.peers.AllServe(math.MaxInt64) {
		return true
	}
	return m.is(apiextensionsv1.NamesAccepted) && sameNames(&m.Spec.Names, &m.Status.AcceptedNames) &&
		c.peers.AllServe(m.object.Revision)
}

// installing reports whether the names of a definition are accepted, and it waits until all servers
// serve it.
func (m *manifest) installing() bool {
	for _, condition := range m.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionFalse && condition.Reason == installing
		}
	}
	return false
}

// installing is the reason in Kubernetes.
const installing = "Installing"

// undecided returns the names of the definitions to reconcile after a change among the peers: all
// if this server became the leader, otherwise those that wait to be served everywhere.
func (c *Controller) undecided() []string {
	leads := c.peers.Leads()
	begins := leads && !c.led
	c.led = leads
	var names []string
	for name, e := range c.known {
		if begins || leads && e.manifest.installing() {
			names = append(names, name)
		}
	}
	return names
}

// reached has the revision up to which the controller serves definitions.
type reached struct {
	mu      sync.Mutex
	at      object.Revision
	changed chan struct{} // closed at the next change; nil without waiters
	poke    chan struct{} // has a capacity of one
}

func (r *reached) set(at object.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = at
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Reach blocks until the definitions are served as of a revision. It returns the error of ctx if
// that is done before.
func (c *Controller) Reach(ctx context.Context, revision object.Revision) error {
	r := &c.reached
	for {
		r.mu.Lock()
		if r.at >= revision {
			r.mu.Unlock()
			return nil
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case r.poke <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
