package resource

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
)

// Claims are the objects that a write creates and removes in the same commit, besides its own
// object. A name can be created only once: so whatever has a name (an address, a port) is never
// given twice, however many servers write. If another write is faster, the whole write is retried
// on a state that shows it.
type Claims struct {
	state   *state.State
	dryRun  bool
	entries []journal.Entry
	guards  []journal.Guard
}

// State returns the state that the claims are checked against.
func (c *Claims) State() *state.State { return c.state }

// DryRun reports whether the write is a dry run, for which claims need not be free.
func (c *Claims) DryRun() bool { return c.dryRun }

// Create adds the creation of an object, which must not exist at the commit. The tree lacks only
// the fields that the server sets in all objects; it is used up.
func (c *Claims) Create(d *Definition, obj Tree) error {
	fillSystemFields(obj, now())
	if d.Strategy.PrepareCreate != nil {
		d.Strategy.PrepareCreate(obj)
	}
	obj["apiVersion"], obj["kind"] = d.APIVersion(d.Storage), d.Kind
	obj, err := d.Storage.Model.Normalise(obj, nil)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	o, err := object.New(d.Key(metaString(obj, "namespace"), metaString(obj, "name")), obj, stamp(d.Storage), now())
	if err != nil {
		return fmt.Errorf("claim %s: %w", metaString(obj, "name"), err)
	}
	c.entries = append(c.entries, journal.Entry{Key: o.Key, Object: o})
	return nil
}

// Put writes an object of a resource that is not served, in place of prev, which is nil if there is
// none: for example a bitmap of the claimed names. Writes that change the same one are serialised.
func (c *Claims) Put(key object.Key, prev *object.Object, obj Tree) error {
	o, err := object.New(key, obj, 0, now())
	if err != nil {
		return fmt.Errorf("claim %s: %w", key, err)
	}
	entry := journal.Entry{Key: key, Object: o}
	if prev != nil {
		entry.Prev = prev.Revision
	}
	c.entries = append(c.entries, entry)
	return nil
}

// Replace writes an object in its storage version in place of prev. The tree is used up.
func (c *Claims) Replace(d *Definition, prev *object.Object, obj Tree) error {
	delete(metadata(obj), "resourceVersion")
	o, err := object.New(prev.Key, obj, stamp(d.Storage), now())
	if err != nil {
		return fmt.Errorf("claim %s: %w", prev.Key, err)
	}
	c.entries = append(c.entries, journal.Entry{Key: prev.Key, Prev: prev.Revision, Object: o})
	return nil
}

// Remove adds the removal of an object.
func (c *Claims) Remove(o *object.Object) {
	c.entries = append(c.entries, journal.Entry{Key: o.Key, Prev: o.Revision})
}

// Require adds a precondition: the object o at key must not change before the commit, or, if o is
// nil, none must be created there.
func (c *Claims) Require(key object.Key, o *object.Object) {
	guard := journal.Guard{Key: key}
	if o != nil {
		guard.Revision = o.Revision
	}
	c.guards = append(c.guards, guard)
}

// Commit commits the claims that f makes for the server itself, outside of a request. If another
// write is faster, f is called again. Without claims nothing is written.
func (s *Store) Commit(ctx context.Context, f func(c *Claims) error) error {
	for {
		c := &Claims{state: s.state}
		if err := f(c); err != nil || len(c.entries) == 0 {
			return err
		}
		_, err := s.state.Append(ctx, journal.Batch{Entries: c.entries, Guards: c.guards})
		if err = writeError(err); !errors.Is(err, errConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// claim returns the claims of the kind and of the gate for obj in place of old, which is nil on
// create.
func (s *Store) claim(r *Request, obj, old Tree) (*Claims, error) {
	c := &Claims{state: s.state, dryRun: r.DryRun}
	if hook := r.Definition.Strategy.Claim; hook != nil {
		if err := hook(c, obj, old); err != nil {
			return nil, err
		}
	}
	if s.gate.Claim != nil {
		if err := s.gate.Claim(c, r, obj, old); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// release returns the claims of the kind and of the gate for the removal of an object.
func (s *Store) release(r *Request, o *object.Object) (*Claims, error) {
	if r.Definition.Strategy.Claim == nil {
		if s.gate.Claim == nil {
			return nil, nil
		}
		c := &Claims{state: s.state, dryRun: r.DryRun}
		if s.gate.Spares != nil && s.gate.Spares(c, r) {
			return c, nil
		}
	}
	old, err := TreeOf(r.Definition, r.Definition.Storage, o)
	if err != nil {
		return nil, err
	}
	return s.claim(r, nil, old)
}
