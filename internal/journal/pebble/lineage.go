package pebble

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// Revisions implements [journal.Lineage]. The entries of the history are found by a scan of the
// history of their resource.
func (j *Journal) Revisions(ctx context.Context, key object.Key, upTo object.Revision, take func(journal.Entry, error) bool) error {
	s, snapshot, release, err := j.snapshot()
	if err != nil {
		return err
	}
	defer release()
	l := lineage{ctx: ctx, snapshot: snapshot, key: key, decode: decoder{sealer: j.opts.Sealer}}
	err = l.read(upTo, take)
	if failed := s.disk.err(); failed != nil {
		return j.refusal(failed) // as in history
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("read the revisions of %s in %s: %w", key, j.dir, judge(j.dir, "the history", err))
	}
	return err
}

// lineage reads the records of one key, newest first: those that a sweep has not moved, and those
// in the archive. While a sweep is under way, the two overlap.
type lineage struct {
	ctx      context.Context
	snapshot *pebble.Snapshot
	key      object.Key
	decode   decoder
}

func (l *lineage) read(upTo object.Revision, take func(journal.Entry, error) bool) (err error) {
	defer recoverDamage(&err)
	swept, err := readMark(l.snapshot, markSwept)
	if err != nil {
		return err
	}
	stored, err := l.snapshot.NewIterWithContext(l.ctx, &pebble.IterOptions{
		LowerBound: appendRecordKey(nil, l.key.Resource, swept+1),
		UpperBound: appendRecordKey(nil, l.key.Resource, max(upTo, swept)+1),
	})
	if err != nil {
		return err
	}
	defer stored.Close()
	archived, err := l.snapshot.NewIterWithContext(l.ctx, &pebble.IterOptions{
		LowerBound: appendArchivePrefix(nil, l.key),
		UpperBound: appendArchiveKey(nil, l.key, upTo+1),
	})
	if err != nil {
		return err
	}
	defer archived.Close()

	recent := recent{lineage: l, iter: stored, before: upTo}
	a, err := recent.next()
	if err != nil {
		return err
	}
	old := older{lineage: l, iter: archived}
	b, err := old.next()
	if err != nil {
		return err
	}
	for a != nil || b != nil {
		r := a
		if fromArchive := a == nil || b != nil && b.revision > a.revision; fromArchive {
			r = b
			b, err = old.next()
		} else {
			a, err = recent.next()
		}
		if err != nil {
			return err
		}
		if entry, err := l.decode.entry(r); !take(entry, err) {
			return nil
		}
	}
	return nil
}

// record parses the record of a revision, and gives it bytes of its own. It returns nil if it is
// one of another object.
func (l *lineage) record(rev object.Revision, value []byte) (*record, error) {
	r, err := parseRecord(value)
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", rev, err)
	}
	if string(r.name) != l.key.Name || string(r.namespace) != l.key.Namespace {
		return nil, nil
	}
	r.resource, r.revision = l.key.Resource, rev
	r.name, r.namespace = []byte(l.key.Name), []byte(l.key.Namespace)
	return r.own(), nil
}

// recent returns the records that are not in the archive.
type recent struct {
	*lineage
	iter   *pebble.Iterator
	begun  bool
	before object.Revision // of the record before those that the iterator returns; 0 if there is none
}

func (r *recent) next() (*record, error) {
	for r.iter != nil {
		ok := false
		if r.begun {
			ok = r.iter.Prev()
		} else {
			r.begun, ok = true, r.iter.Last()
		}
		if !ok {
			if err := r.iter.Error(); err != nil {
				return nil, err
			}
			r.iter = nil
			break
		}
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		_, rev, err := splitRecordKey(r.iter.Key())
		if err != nil {
			return nil, err
		}
		value, err := r.iter.ValueAndErr()
		if err != nil {
			return nil, err
		}
		found, err := r.record(rev, value)
		if err != nil {
			return nil, err
		}
		if found != nil {
			r.before = found.previous
			return found, nil
		}
	}
	rev := r.before
	if rev == 0 {
		return nil, nil
	}
	r.before = 0
	value, closer, err := r.snapshot.Get(appendRecordKey(nil, r.key.Resource, rev))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", rev, err)
	}
	defer closer.Close()
	return r.record(rev, value)
}

// older returns the records of the archive.
type older struct {
	*lineage
	iter  *pebble.Iterator
	begun bool
}

func (o *older) next() (*record, error) {
	ok := false
	if o.begun {
		ok = o.iter.Prev()
	} else {
		o.begun, ok = true, o.iter.Last()
	}
	if !ok {
		return nil, o.iter.Error()
	}
	if err := o.ctx.Err(); err != nil {
		return nil, err
	}
	value, err := o.iter.ValueAndErr()
	if err != nil {
		return nil, err
	}
	r, err := parseArchived(o.iter.Key(), value)
	if err != nil {
		return nil, err
	}
	r.name, r.namespace = []byte(o.key.Name), []byte(o.key.Namespace) // in place of those in value
	return r.own(), nil
}

var _ journal.Lineage = (*Journal)(nil)
