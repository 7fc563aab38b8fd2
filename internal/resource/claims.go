package resource

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
)

// Claims are what a write takes hold of, or lets go, besides its own object: other
// objects that are created and removed in the same commit. A name can be created
// once only, and so whatever has a name of its own (an address, a port) is never
// given twice, however many servers write. Where another write was faster, all of
// the write is tried again, on a state that shows it.
type Claims struct {
	state   *state.State
	dryRun  bool
	entries []journal.Entry
	guards  []journal.Guard
}

// State shows what is stored now.
func (c *Claims) State() *state.State { return c.state }

// DryRun says that nothing will be written, and so nothing needs to be free.
func (c *Claims) DryRun() bool { return c.dryRun }

// Create claims an object that must not exist. The tree is complete but for what
// all objects have, and is used up.
func (c *Claims) Create(d *Definition, obj Tree) error {
	fillSystemFields(obj, now())
	if d.Hooks.PrepareCreate != nil {
		d.Hooks.PrepareCreate(obj)
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

// Put writes an object that nobody is served, in place of prev, nil if there is none:
// one that says for many names which of them are claimed. Writes that change it come
// one after another.
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

// Replace writes an object of a kind, in its storage version, in place of prev. The tree is used up.
func (c *Claims) Replace(d *Definition, prev *object.Object, obj Tree) error {
	delete(metadata(obj), "resourceVersion")
	o, err := object.New(prev.Key, obj, stamp(d.Storage), now())
	if err != nil {
		return fmt.Errorf("claim %s: %w", prev.Key, err)
	}
	c.entries = append(c.entries, journal.Entry{Key: prev.Key, Prev: prev.Revision, Object: o})
	return nil
}

// Remove lets go of an object.
func (c *Claims) Remove(o *object.Object) {
	c.entries = append(c.entries, journal.Entry{Key: o.Key, Prev: o.Revision})
}

// Require makes the write depend on an object that must not change meanwhile, or on
// that there is none at its key, if it is nil.
func (c *Claims) Require(key object.Key, o *object.Object) {
	guard := journal.Guard{Key: key}
	if o != nil {
		guard.Revision = o.Revision
	}
	c.guards = append(c.guards, guard)
}

// Commit writes what f claims, if anything, for the server itself and besides no object of a request. It is tried again
// where another write was faster.
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

// claim asks the kind of a request what else is to be written with obj. old is nil
// where it is created.
func (s *Store) claim(r *Request, obj, old Tree) (*Claims, error) {
	c := &Claims{state: s.state, dryRun: r.DryRun}
	if hook := r.Definition.Hooks.Claim; hook != nil {
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

// release asks the kind of an object that goes what goes with it.
func (s *Store) release(r *Request, o *object.Object) (*Claims, error) {
	if r.Definition.Hooks.Claim == nil {
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
