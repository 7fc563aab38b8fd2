// Package quota is Kubernetes' plugin ResourceQuota, and keeps what the ResourceQuotas of a namespace say is used: the sum over
// the objects that are stored, at every moment, however many servers write.
//
// # Exact
//
// What is used is part of the commit that changes it: a pod, and the sums that it counts for, become
// visible together. [Quotas.Claim] is asked of every write, also the server's own, and adds to it. Per namespace that has quotas
// there are two objects that nobody is served:
//
//   - the epoch, which is written when a quota comes, goes or gets another spec, and only then. It is absent as long as the namespace
//     has no quota;
//   - the ledger, which says for each quota what is used, or that this has not been counted yet. Every commit that
//     changes what a quota counts writes it, and so these come one after another.
//
// Every write that could count requires that the epoch is still the one that it has seen. So the writes that are committed after a
// quota has come have all seen it; those that have not seen it are committed before, and whoever counts finds them in the state.
// The ledger says at first that the quota has not been counted. The first write that counts for it, or
// the chore ([Quotas.Start]), whoever is first, counts what is stored, on a state that holds the ledger as it then replaces it: had another write counted
// meanwhile, it would have written the ledger, and the commit would fail and be tried again. What holds for a new quota
// holds for another spec.
//
// The status of a quota shows what the ledger says. It is written by the same commit, with one exception: a commit on etcd writes one
// object of a resource at most. Where a write counts for several quotas there, the chore follows up for all but the first. Judged is
// by the ledger always. Who writes a status by hand finds it put right again by the chore.
//
// # What is not here
//
// A pod counts until it is gone or has ended; Kubernetes' controllers stop to count one, at some time, whose grace has
// passed without its end. Extended resources that classes of devices provide count for pods only. There is no
// configuration of resources that are limited by default.
package quota

import (
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Name is that of the plugin.
const Name = "ResourceQuota"

var quotas = schema.GroupResource{Resource: "resourcequotas"}

// Quotas keep and enforce the quotas of a store. They have no state of their own.
type Quotas struct {
	registry *resource.Registry
	single   bool
	enforce  bool
}

// Options say how quotas are kept.
type Options struct {
	// Single says that a commit can write one object of a resource only.
	Single bool
	// Enforce refuses users what a quota does not allow. What is used is kept in any case.
	Enforce bool
}

// New returns Quotas over the kinds of a registry.
func New(registry *resource.Registry, opts Options) *Quotas {
	return &Quotas{registry: registry, single: opts.Single, enforce: opts.Enforce}
}

// counted says whether objects of a kind can count for a quota.
func counted(d *resource.Definition) bool {
	return d.Namespaced && d.Action == nil && (d.Custom || d.Plural != "events")
}

// Spares is resource.Gate.Spares: what goes need not be looked at where there is no quota.
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
	if len(book.accounts) == 0 {
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

// chargeAll counts a write for all quotas. Those that miss something in the object are the first to say so.
func (q *Quotas) chargeAll(c *resource.Claims, book *book, w *write) error {
	var all []*account
	for _, a := range book.sorted() {
		if err := a.load(c.State()); err != nil {
			return err
		}
		if a.stored == nil || w.gr == quotas && a.name == w.name {
			continue // it goes, or comes: then it counts itself when it is there
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
	for _, a := range all {
		if err := q.charge(c, a, w); err != nil {
			return err
		}
	}
	return nil
}

// charge counts a write for a quota.
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

// show writes what is used into the status of the quotas for which that has changed.
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

// The objects that nobody is served. Their resources have capital letters, which no definition of custom resources can have: who may define
// some would otherwise be served them, and could write them.
func epochKey(namespace string) object.Key {
	return object.Key{Resource: schema.GroupResource{Group: "kapok.dev", Resource: "quotaEpochs"}, Name: namespace}
}

var ledgers = schema.GroupResource{Group: "kapok.dev", Resource: "quotaLedgers"}

func ledgerKey(namespace string) object.Key { return object.Key{Resource: ledgers, Name: namespace} }
