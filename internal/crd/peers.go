package crd

import (
	"context"
	"math"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Peers are the other servers on the same journal. All serve what has been decided;
// one decides.
type Peers interface {
	// Leads says whether this server decides: accepts names, establishes, deletes.
	Leads() bool
	// Serves tells the others that this server serves the definitions as they were
	// at a revision.
	Serves(object.Revision)
	// AllServe says whether all others do.
	AllServe(object.Revision) bool
	// Changed returns a channel that is closed when Leads or AllServe may answer
	// otherwise; nil for never.
	Changed() <-chan struct{}
}

// alone is a server without others.
type alone struct{}

func (alone) Leads() bool                   { return true }
func (alone) Serves(object.Revision)        {}
func (alone) AllServe(object.Revision) bool { return true }
func (alone) Changed() <-chan struct{}      { return nil }

// everywhere says whether a definition that is to be established is served by all
// servers: those that have seen its names accepted serve it.
func (c *Controller) everywhere(m *manifest) bool {
	if c.peers.AllServe(math.MaxInt64) {
		return true
	}
	return m.is(apiextensionsv1.NamesAccepted) && sameNames(&m.Spec.Names, &m.Status.AcceptedNames) &&
		c.peers.AllServe(m.object.Revision)
}

// installing says that the names of a definition are accepted, and that it is
// established once all servers serve it.
func (m *manifest) installing() bool {
	for _, condition := range m.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionFalse && condition.Reason == installing
		}
	}
	return false
}

// installing is what Kubernetes gives as the reason.
const installing = "Installing"

// undecided returns the names of the definitions that a change among the peers may
// have an effect on.
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

// reached is how far the controller has come.
type reached struct {
	mu      sync.Mutex
	at      object.Revision
	changed chan struct{} // closed at the next change; nil if nobody waits
	poke    chan struct{} // has room for one
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

// Reach returns when the definitions are served as they were at a revision.
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
