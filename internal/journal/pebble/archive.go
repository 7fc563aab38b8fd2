package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// archive is what a store knows of its archive: the superseded records of the objects that
// Options.Archive selects, after they have left the history.
//
// A sweep moves such a record instead of removing it, from its r key to an a key, where the records
// of one object are contiguous. A q key, of a queue for each time that rules have named, says when
// it is to be removed.
//
//	a<group>/<resource> 00 <namespace> 00 <name> 00 <revision>   the record
//	q<keep> <since> <revision>                                   its size, uvarint, and its a key
//
// keep and since, when it was moved, are big-endian seconds. Journal.compacting guards the fields.
type archive struct {
	counted bool
	bytes   int64 // of a keys and records
}

func appendArchivePrefix(dst []byte, key object.Key) []byte {
	dst = append(dst, 'a')
	dst = append(dst, key.Resource.Group...)
	dst = append(dst, '/')
	dst = append(dst, key.Resource.Resource...)
	dst = append(dst, 0)
	dst = append(dst, key.Namespace...)
	dst = append(dst, 0)
	dst = append(dst, key.Name...)
	return append(dst, 0)
}

func appendArchiveKey(dst []byte, key object.Key, rev object.Revision) []byte {
	return binary.BigEndian.AppendUint64(appendArchivePrefix(dst, key), uint64(rev))
}

// parseArchived reads a record of the archive. It lives as long as key and value do.
func parseArchived(key, value []byte) (r record, err error) {
	prefix, _, ok := bytes.Cut(key, []byte{0})
	if !ok || len(key) < len(prefix)+8 {
		return r, fmt.Errorf("malformed key %q", key)
	}
	if r, err = parseRecord(value); err != nil {
		return r, err
	}
	r.revision = decodeMark(key[len(key)-8:])
	if r.resource, err = resourceOf(key[:len(prefix)+1]); err != nil {
		return r, err
	}
	if !bytes.Equal(appendArchiveKey(nil, r.key(), r.revision), key) {
		return r, fmt.Errorf("the key %q is not that of %s at revision %d", key, r.key(), r.revision)
	}
	return r, nil
}

// queueKeyLen is the length of a q key.
const queueKeyLen = 1 + 8 + 8 + 8

func appendQueueKey(dst []byte, keep, since uint64, rev object.Revision) []byte {
	dst = append(dst, 'q')
	dst = binary.BigEndian.AppendUint64(dst, keep)
	dst = binary.BigEndian.AppendUint64(dst, since)
	return binary.BigEndian.AppendUint64(dst, uint64(rev))
}

// queued is an entry of a queue.
type queued struct {
	keep, since uint64
	size        int64
	key         []byte // the a key
}

func parseQueued(key, value []byte) (q queued, err error) {
	size, n := binary.Uvarint(value)
	if len(key) != queueKeyLen || n <= 0 || size > math.MaxInt64 {
		return q, fmt.Errorf("malformed entry %q of the archive", key)
	}
	return queued{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:]), int64(size), value[n:]}, nil
}

// due reports whether the time of a record has passed.
func (q *queued) due(now time.Time) bool {
	return now.Unix() >= 0 && q.since+q.keep <= uint64(now.Unix())
}

// archive moves the record at a revision to the archive.
func (s *sweep) archive(from []byte, key object.Key, rev object.Revision, keep time.Duration) error {
	value, closer, err := s.store.db.Get(from)
	if errors.Is(err, pebble.ErrNotFound) { // an interrupted sweep has moved it
		return nil
	}
	if err != nil {
		return fmt.Errorf("revision %d: %w", rev, err)
	}
	defer closer.Close()
	to := appendArchiveKey(nil, key, rev)
	size := int64(len(to) + len(value))
	if err := s.batch.Set(to, value, nil); err != nil {
		return err
	}
	seconds := uint64((keep + time.Second - 1) / time.Second)
	entry := appendQueueKey(nil, seconds, uint64(max(s.now.Unix(), 0)), rev)
	s.store.archive.bytes += size
	return s.batch.Set(entry, append(binary.AppendUvarint(nil, uint64(size)), to...), nil)
}

// countArchive adds up the archive, once for a store.
func (s *store) countArchive(ctx context.Context) error {
	if s.archive.counted {
		return nil
	}
	s.archive.bytes = 0
	err := s.eachQueued(ctx, []byte{'q'}, func(_ []byte, q *queued) (bool, error) {
		s.archive.bytes += q.size
		return true, nil
	})
	s.archive.counted = err == nil
	return err
}

// eachQueued calls f with the entries of the queues from a key on, until it returns false. An entry
// is valid only during the call.
func (s *store) eachQueued(ctx context.Context, from []byte, f func(key []byte, q *queued) (bool, error)) error {
	iter, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: []byte{'q' + 1}})
	if err != nil {
		return err
	}
	defer iter.Close()
	n := 0
	for ok := iter.First(); ok; ok = iter.Next() {
		if n++; n%ctxEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		q, err := parseQueued(iter.Key(), value)
		if err != nil {
			return err
		}
		if more, err := f(iter.Key(), &q); err != nil || !more {
			return err
		}
	}
	return iter.Error()
}

// expire removes from the archive what has been there for its time, and the oldest records as long
// as it is larger than the limit. Its writes need no sync, like those of a sweep.
func (s *store) expire(ctx context.Context, now time.Time, limit int64) (err error) {
	defer recoverDamage(&err)
	if err := s.countArchive(ctx); err != nil {
		return err
	}
	heads, err := s.heads(ctx)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if h.due(now) {
			if err := s.drop(ctx, h.keep, func(q *queued) bool { return q.due(now) }); err != nil {
				return err
			}
		}
	}
	for s.archive.bytes > limit {
		if heads, err = s.heads(ctx); err != nil || len(heads) == 0 {
			return err
		}
		slices.SortFunc(heads, func(a, b queued) int { return cmp.Compare(a.since, b.since) })
		others := uint64(math.MaxUint64) // since when the other queues have records
		if len(heads) > 1 {
			others = heads[1].since
		}
		err = s.drop(ctx, heads[0].keep, func(q *queued) bool { return s.archive.bytes > limit && q.since <= others })
		if err != nil {
			return err
		}
	}
	return nil
}

// heads returns the first entry of each queue, without its key.
func (s *store) heads(ctx context.Context) (heads []queued, err error) {
	for from := []byte{'q'}; from != nil; {
		at := from
		from = nil
		err := s.eachQueued(ctx, at, func(_ []byte, q *queued) (bool, error) {
			heads = append(heads, queued{keep: q.keep, since: q.since})
			if q.keep < math.MaxUint64 {
				from = appendQueueKey(nil, q.keep+1, 0, 0)
			}
			return false, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// drop removes the records of a queue, oldest first, as long as the condition holds.
func (s *store) drop(ctx context.Context, keep uint64, while func(*queued) bool) (err error) {
	batch := s.db.NewBatch()
	defer func() {
		batch.Close()
		if err != nil {
			s.archive.counted = false // what has been written is not known
		}
	}()
	flush := func() error {
		err := errors.Join(s.db.Apply(batch, pebble.NoSync), s.disk.err())
		batch.Reset()
		return err
	}
	err = s.eachQueued(ctx, appendQueueKey(nil, keep, 0, 0), func(key []byte, q *queued) (bool, error) {
		if q.keep != keep || !while(q) {
			return false, nil
		}
		s.archive.bytes -= q.size
		if err := errors.Join(batch.Delete(bytes.Clone(q.key), nil), batch.Delete(key, nil)); err != nil || batch.Len() < sweepBatch {
			return true, err
		}
		return true, flush()
	})
	return errors.Join(err, flush())
}
