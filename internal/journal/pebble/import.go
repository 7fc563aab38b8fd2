package pebble

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// importBatch is the size in bytes of the objects of one write.
const importBatch = 1 << 20

// Import creates a journal from objects, each at its own revision, in a directory that is empty or
// missing; it rejects any other. New revisions start behind head, and there is no history up to
// head.
//
// It imports all or nothing: after an error, of objects or its own, the directory is empty, and the
// remains of a crash cannot be opened.
func Import(ctx context.Context, opts Options, head object.Revision, objects iter.Seq2[*object.Object, error]) (err error) {
	if opts.ReadOnly {
		return errors.New("import journal: Options.ReadOnly is set")
	}
	j, err := lockDirectory(opts)
	if err != nil {
		return fmt.Errorf("import journal to %s: %w", opts.Dir, err)
	}
	defer func() { err = errors.Join(err, j.unlock()) }()
	if err := j.checkEmpty(); err != nil {
		return fmt.Errorf("import journal to %s: %w", opts.Dir, err)
	}
	if err := j.load(ctx, head, objects); err != nil {
		return errors.Join(fmt.Errorf("import journal to %s: %w", opts.Dir, err), j.clear())
	}
	return nil
}

func (j *Journal) checkEmpty() error {
	names, err := j.files.List(j.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name = j.files.PathBase(name); !nothing(name) {
			return fmt.Errorf("the directory must be empty, but contains %s: choose another directory or move its files away", name)
		}
	}
	return nil
}

// clear removes what was made in a directory that was empty.
func (j *Journal) clear() error {
	names, err := j.files.List(j.dir)
	for _, name := range names {
		if j.files.PathBase(name) != "LOCK" {
			err = errors.Join(err, j.files.Remove(j.files.PathJoin(j.dir, name)))
		}
	}
	return err
}

// load fills an empty directory. Until it has finished, the head marks the store as incomplete.
func (j *Journal) load(ctx context.Context, last object.Revision, objects iter.Seq2[*object.Object, error]) error {
	if last < 0 {
		return fmt.Errorf("revision %d is invalid: must be positive", last)
	}
	if err := createHead(j.files, j.dir, head{state: stateImporting}); err != nil {
		return err
	}
	s := &store{dir: j.dir, files: j.files, disk: newDisk(j.files, j.opts.Logger, &j.stats.syncs)}
	s.marks = marks{format: format, compacted: last, swept: last, totals: totals{head: last}}
	settings := j.settings(s)
	settings.DisableWAL = true // it is flushed at the end, or discarded
	err := s.openDB(settings)
	if err == nil {
		err = s.load(ctx, objects, writer{sealer: j.opts.Sealer})
	}
	if err == nil {
		err = j.scan(ctx, s, nil, func(*record) error { return nil })
	}
	err = errors.Join(err, s.close())
	if failed := s.disk.err(); failed != nil {
		err = failed
	}
	if err != nil {
		return err
	}
	// Removals that pebble has deferred need not be done now: the next opening does them.
	f, err := openHead(j.files, j.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.settle(head{state: stateReady, revision: last}), f.file.Sync(), f.close())
}

func (s *store) load(ctx context.Context, objects iter.Seq2[*object.Object, error], w writer) error {
	batch := s.db.NewBatchWithSize(importBatch + importBatch/8)
	defer func() { batch.Close() }()
	flush := func() error {
		err := errors.Join(s.db.Apply(batch, pebble.NoSync), s.disk.err(), ctx.Err())
		batch.Reset()
		return err
	}
	keys := map[object.Key]struct{}{}
	for o, err := range objects {
		if err != nil {
			return err
		}
		if o.Revision <= 0 || o.Revision > s.marks.totals.head {
			return fmt.Errorf("%s has revision %d: must be from 1 to %d", o.Key, o.Revision, s.marks.totals.head)
		}
		if _, twice := keys[o.Key]; twice {
			return fmt.Errorf("%s occurs twice", o.Key)
		}
		keys[o.Key] = struct{}{}
		if err := w.put(batch, &journal.Entry{Key: o.Key, Revision: o.Revision, Object: o}); err != nil {
			return err
		}
		s.marks.totals.add(o.Revision)
		if batch.Len() >= importBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	m := &s.marks
	for _, mark := range []struct {
		name  string
		value []byte
	}{
		{markFormat, encodeMark(m.format)}, {markCompacted, encodeMark(m.compacted)},
		{markSwept, encodeMark(m.swept)}, {markTotals, m.totals.encode()},
	} {
		if err := batch.Set([]byte(mark.name), mark.value, nil); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil {
		return err
	}
	return s.disk.err()
}
