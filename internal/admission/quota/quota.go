// Package quota is Kubernetes' plugin ResourceQuota. It enforces ResourceQuotas, and keeps their
// used amounts exact: they are at every revision the sum over the stored objects, however many
// servers write.
//
// # Exactness
//
// The commit that changes the use also writes it: a pod, and the sums that it counts for, become
// visible together. [Quotas.Claim] is called for every write, including the server's own, and adds
// to its commit. Each namespace with quotas has two objects that are not served:
//
//   - the epoch, which is written only when a quota is created, deleted or gets another spec. It is
//     absent as long as the namespace has no quota;
//   - the ledger, which has the use of each quota, or that the quota has not been counted yet.
//     Every commit that changes the use of a quota writes it, so that these commits are serialized.
//
// Every write that can count has a precondition on the epoch that it read. A write that is
// committed after a quota was created has therefore seen the quota; a write that has not seen it is
// committed before, and the count finds its object in the state. A new quota is uncounted in the
// ledger. The first write that counts for it, or the background task ([Quotas.Settle]), counts the
// objects in a state that includes the ledger which it replaces: if another write had counted
// meanwhile, it would have replaced the ledger, and the commit would fail and be retried. A new
// spec of a quota is handled in the same way.
//
// The status of a quota shows the ledger. The same commit writes it, with one exception: a commit
// on etcd writes at most one object of a resource. There, a write that counts for several quotas
// updates the status of the first one, and the background task those of the others. Decisions
// always use the ledger. The background task also reverts a status that a user has written.
//
// # Limitations
//
// A pod counts until it is deleted or has ended; Kubernetes' controllers stop counting a pod some
// time after its grace period has passed. Extended resources that DeviceClasses provide count for
// pods only.
//
// # Goroutines and locks
//
// The package starts no goroutine: internal/housekeeping/quotas calls [Quotas.Settle]. There are no
// locks.
package quota

import (
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Name is the name of the plugin.
const Name = "ResourceQuota"

var quotas = schema.GroupResource{Resource: "resourcequotas"}

// Quotas keeps and enforces the quotas of a store. It has no state, and is safe for concurrent use.
type Quotas struct {
	registry *resource.Registry
	single   bool
	enforce  bool
	config   *Configuration
}

// Options configure Quotas. The zero value keeps the use and rejects nothing.
type Options struct {
	// Single means that a commit can write only one object of a resource, as on etcd.
	Single bool
	// Enforce rejects writes of users that exceed a quota. The use is kept in any case.
	Enforce bool
	// Configuration is what needs a quota. Nil is nothing.
	Configuration *Configuration
}

// New returns Quotas over the kinds of a registry.
func New(registry *resource.Registry, opts Options) *Quotas {
	return &Quotas{registry: registry, single: opts.Single, enforce: opts.Enforce, config: opts.Configuration}
}

// counted reports whether objects of a kind can count for a quota.
func counted(d *resource.Definition) bool {
	return d.Namespaced && d.Action == nil && (d.Custom || d.Plural != "events")
}

// Spares is resource.Gate.Spares: without a quota in the namespace, a delete needs no claim.
func (q *Quotas) Spares(c *resource.Claims, r *resource.Request) bool {
	if !counted(r.Definition) {
		return true
	}
	epoch, _ := c.State().Get(epochKey(r.Namespace))
	if epoch != nil || r.Definition.GroupResource() == quotas {
		return false
	}
	c.Require(epochKey(r.Namespace), nil)
	return true
}

// Claim is resource.Gate.Claim.
func (q *Quotas) Claim(c *resource.Claims, r *resource.Request, obj, old resource.Tree) error {
	gr := r.Definition.GroupResource()
	if !counted(r.Definition) || obj != nil && old != nil && gr != quotas && !changes[gr] {
		return nil
	}
	book, err := open(c.State(), r.Namespace)
	if err != nil {
		return err
	}
	if gr == quotas {
		book.follow(obj, old)
	}
	if len(book.accounts) == 0 && !q.limits() {
		return book.close(c)
	}
	w, err := newWrite(r, obj, old)
	if err != nil {
		return err
	}
	if err := q.chargeAll(c, book, w); err != nil {
		return err
	}
	if err := q.show(c, book, gr == quotas); err != nil {
		return err
	}
	return book.close(c)
}

// limits reports whether something can only be used where a quota bounds it.
func (q *Quotas) limits() bool {
	return q.enforce && q.config != nil && len(q.config.LimitedResources) > 0
}

// chargeAll charges a write to all quotas. Errors about missing requests or limits come before
// those about exceeded quotas.
func (q *Quotas) chargeAll(c *resource.Claims, book *book, w *write) error {
	var all []*account
	for _, a := range book.sorted() {
		if err := a.load(c.State()); err != nil {
			return err
		}
		if a.stored == nil || w.gr == quotas && a.name == w.name {
			continue // a quota that is being created or deleted is counted when it exists
		}
		all = append(all, a)
	}
	for _, a := range all {
		if q.enforce && w.judged && a.takes(w.now, w.gr) {
			if err := w.now.lacks(a.measured(w.gr)); err != nil {
				return w.refuse("failed quota: %s: %v", a.name, err)
			}
		}
	}
	if q.limits() && w.judged {
		if err := q.config.check(w, all); err != nil {
			return err
		}
	}
	for _, a := range all {
		if err := q.charge(c, a, w); err != nil {
			return err
		}
	}
	return nil
}

// charge charges a write to a quota.
func (q *Quotas) charge(c *resource.Claims, a *account, w *write) error {
	before, after := a.usage(w.before, w.gr), a.usage(w.now, w.gr)
	if same(before, after) {
		return nil
	}
	if a.used == nil {
		if err := a.count(c.State()); err != nil {
			return err
		}
	}
	if q.enforce && w.judged {
		if err := w.fits(a, positive(difference(after, before))); err != nil {
			return err
		}
	}
	a.used = sum(difference(a.used, before), after)
	a.changed = true
	return nil
}

// show claims writes of the status of the quotas whose use changed.
func (q *Quotas) show(c *resource.Claims, book *book, ofQuota bool) error {
	d := q.registry.Load().Resource(quotas)
	for _, a := range book.sorted() {
		if !a.changed || a.stored == nil {
			continue
		}
		if q.single && ofQuota {
			return nil
		}
		if _, err := a.show(c, d); err != nil {
			return err
		}
		if q.single {
			return nil
		}
	}
	return nil
}

func nameOf(obj, old resource.Tree) string {
	if obj == nil {
		obj = old
	}
	return text(obj, "metadata", "name")
}

// The keys of the objects that are not served. Their resources have capital letters, which names of
// custom resources cannot have: otherwise a user who may create definitions could read and write
// them.
func epochKey(namespace string) object.Key {
	return object.Key{Resource: schema.GroupResource{Group: "kapok.dev", Resource: "quotaEpochs"}, Name: namespace}
}

var ledgers = schema.GroupResource{Group: "kapok.dev", Resource: "quotaLedgers"}

func ledgerKey(namespace string) object.Key { return object.Key{Resource: ledgers, Name: namespace} }
