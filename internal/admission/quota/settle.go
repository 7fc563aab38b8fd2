package quota

import (
	"context"

	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
)

// NamespaceOf returns the namespace whose quotas have to be settled because of an event, "" if
// there is none: a quota has been created or changed or, on a journal that commits one object at a
// time, the ledger of a namespace.
func (q *Quotas) NamespaceOf(e *state.Event) string {
	switch {
	case e.Object == nil:
		return ""
	case e.Object.Key.Resource == quotas:
		return e.Object.Key.Namespace
	case q.single && e.Object.Key.Resource == ledgers:
		return e.Object.Key.Name
	}
	return ""
}

// Settle counts what is used for the quotas of a namespace that are new or have a new spec, and
// writes the status of those that do not show their use, in as many commits as needed.
func (q *Quotas) Settle(ctx context.Context, store *resource.Store, namespace string) error {
	for more := true; more; {
		err := store.Commit(ctx, func(c *resource.Claims) (err error) {
			more, err = q.settle(c, namespace)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settle claims the writes of one commit, and reports whether more are needed.
func (q *Quotas) settle(c *resource.Claims, namespace string) (more bool, err error) {
	book, err := open(c.State(), namespace)
	if err != nil {
		return false, err
	}
	for o := range c.State().Snapshot(quotas).All(namespace) {
		if a := book.accounts[o.Key.Name]; a == nil || a.uid != string(o.Meta.UID) {
			book.enter(o.Key.Name, string(o.Meta.UID)) // the quota is older than the book
			c.Require(o.Key, o)
		}
	}
	if book.turned {
		return true, book.close(c)
	}
	d := q.registry.Load().Resource(quotas)
	for _, a := range book.sorted() {
		if err := a.load(c.State()); err != nil {
			return false, err
		}
		if a.stored == nil {
			continue // the quota is being deleted
		}
		if a.used == nil {
			if err := a.count(c.State()); err != nil {
				return false, err
			}
		}
		if more && q.single {
			continue
		}
		written, err := a.show(c, d)
		if err != nil {
			return false, err
		}
		more = more || written
	}
	if !more && !book.dirty() {
		return false, nil
	}
	if !book.dirty() {
		c.Require(ledgerKey(namespace), book.ledger)
	}
	return more, book.close(c)
}
