package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	wal "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// wreck is the files of a store that may no longer be one.
type wreck struct {
	files    vfs.FS // nothing is written to it
	dir      string
	tables   []string
	logs     []string
	problems []error // what could not be read
	unlisted error   // why it is not known which tables belong to the store
}

// piece is one write that a file tells of. It lives until the function that gets it
// returns.
type piece struct {
	file       string
	log        bool
	kind       pebble.InternalKeyKind
	key, value []byte
}

// list finds the files: of the tables those that the store's own list has, if that
// can be read, as others may hold what was removed long ago.
func (w *wreck) list(j *Journal) error {
	names, err := w.files.List(w.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch name = w.files.PathBase(name); {
		case strings.HasSuffix(name, ".sst"):
			w.tables = append(w.tables, name)
		case strings.HasSuffix(name, ".log"):
			w.logs = append(w.logs, name)
		}
	}
	slices.Sort(w.tables)
	slices.Sort(w.logs)
	listed, err := w.listed(j)
	if err != nil {
		w.unlisted = fmt.Errorf("the list of tables cannot be read, so what was deleted may be back: %w", err)
		return nil
	}
	w.tables = listed
	return nil
}

// listed returns the tables that the store's own list has. Its logs are hidden from
// pebble, which would not open the store for what is wrong with them.
func (w *wreck) listed(j *Journal) (names []string, err error) {
	defer guard(&err)
	s := &store{disk: newDisk(noLogs{w.files}, j.opts.Logger, &j.stats.syncs), readOnly: true}
	settings := j.settings(s)
	settings.DisableConsistencyCheck = true // of a table that is missing the others are of use
	db, err := pebble.Open(w.dir, settings)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	for _, level := range levels {
		for _, table := range level {
			names = append(names, fmt.Sprintf("%06d.sst", table.BackingSSTNum))
		}
	}
	return names, nil
}

// noLogs hides the logs of a store.
type noLogs struct{ vfs.FS }

func (n noLogs) List(dir string) ([]string, error) {
	names, err := n.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") }), err
}

// each calls take with every write that can be read, file by file, until it returns
// an error.
func (w *wreck) each(take func(*piece) error) error {
	if w.unlisted != nil {
		w.problems = append(w.problems, w.unlisted)
	}
	for _, name := range w.tables {
		if err := w.file(name, w.readTable, take); err != nil {
			return err
		}
	}
	for _, name := range w.logs {
		if err := w.file(name, w.readLog, take); err != nil {
			return err
		}
	}
	return nil
}

// file reads a file, and tells the errors of take from all others.
func (w *wreck) file(name string, read func(string, func(*piece) error) error, take func(*piece) error) (stop error) {
	err := func() (err error) {
		defer guard(&err)
		return read(name, func(p *piece) error {
			if stop == nil {
				stop = take(p)
			}
			return stop
		})
	}()
	if stop == nil && err != nil {
		w.problems = append(w.problems, fmt.Errorf("%s: %w", name, err))
	}
	return stop
}

// readTable reads a table from both ends of every block that is damaged.
func (w *wreck) readTable(name string, take func(*piece) error) error {
	f, err := w.files.Open(w.files.PathJoin(w.dir, name))
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	var defaults pebble.Options
	defaults.EnsureDefaults()
	r, err := sstable.NewReader(context.Background(), readable, defaults.MakeReaderOptions())
	if err != nil {
		return err
	}
	defer r.Close()
	t := table{reader: r, take: take, piece: piece{file: name}}
	var damage error
	for at := []byte(nil); ; {
		last, err := t.forward(at)
		if err == nil || t.stopped {
			return errors.Join(damage, err)
		}
		damage = err
		if at, err = t.beyond(last); err != nil || at == nil {
			return errors.Join(damage, err)
		}
	}
}

// table reads an sstable in pieces.
type table struct {
	reader  *sstable.Reader
	take    func(*piece) error
	piece   piece
	stopped bool // take has returned an error
}

// forward reads from a key on, or from the first if that is nil, and returns the
// last key that it could read.
func (t *table) forward(from []byte) (last []byte, err error) {
	iter, err := t.reader.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	last = from
	kv := iter.First()
	if from != nil {
		kv = iter.SeekGE(from, 0)
	}
	for ; kv != nil; kv = iter.Next() {
		value, _, err := kv.Value(nil)
		if err == nil {
			err = t.give(kv.Kind(), kv.K.UserKey, value)
		}
		if err != nil {
			return last, err
		}
		last = append(last[:0:0], kv.K.UserKey...)
	}
	return last, iter.Error()
}

func (t *table) give(kind pebble.InternalKeyKind, key, value []byte) error {
	t.piece.kind, t.piece.key, t.piece.value = kind, key, value
	err := t.take(&t.piece)
	t.stopped = t.stopped || err != nil
	return err
}

// beyond looks for what can be read behind the damage that follows a key: first at
// the revisions after it, in growing steps, then behind the resource, then from the
// end. It reads backwards from there to the damage, and returns the key to go on
// from; nil if that is the end.
func (t *table) beyond(last []byte) ([]byte, error) {
	if prefix, rev, err := splitRecordKey(last); err == nil {
		for step := uint64(1); step < 1<<62; step *= 2 {
			at := binary.BigEndian.AppendUint64(bytes.Clone(prefix), uint64(rev)+step)
			if key, err := t.backward(at, last); err == nil || t.stopped {
				return key, err
			}
		}
		at := append(bytes.Clone(prefix[:len(prefix)-1]), 1)
		if key, err := t.backward(at, last); err == nil || t.stopped {
			return key, err
		}
	}
	_, err := t.backward(nil, last)
	return nil, err
}

// backward finds the first key from a place on, or the last key if that is nil,
// and reads backwards from there until it is at the end of what has been read, or
// at damage. It returns the key that it has found, nil if there is none, or an error
// if the place itself is damaged.
func (t *table) backward(from, end []byte) (found []byte, err error) {
	iter, err := t.reader.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, err
	}
	defer iter.Close() // with the error of the damage that it has met
	kv := iter.Last()
	if from != nil {
		kv = iter.SeekGE(from, 0)
		if kv == nil && iter.Error() == nil { // behind all keys
			from = nil
			kv = iter.Last()
		}
	}
	if kv == nil {
		return nil, iter.Error()
	}
	if from != nil {
		found = bytes.Clone(kv.K.UserKey)
	}
	for ; kv != nil && bytes.Compare(kv.K.UserKey, end) > 0; kv = iter.Prev() {
		value, _, err := kv.Value(nil)
		if err == nil {
			err = t.give(kv.Kind(), kv.K.UserKey, value)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// logBlock is the unit of logs: where a block is damaged, the next can be read.
const logBlock = 32 << 10

// readLog reads a log as far as it goes, and behind damage what is whole again.
func (w *wreck) readLog(name string, take func(*piece) error) error {
	number, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 64)
	if err != nil {
		return err
	}
	f, err := w.files.Open(w.files.PathJoin(w.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p := piece{file: name, log: true}
	var damage, known error
	for start := int64(0); start < info.Size(); {
		section := io.NewSectionReader(f, start, info.Size()-start)
		r := wal.NewReader(section, like(pebble.SSTableInfo{}.BackingSSTNum, number))
		n, end, err := readBatches(r, &p, take)
		if n > 0 && damage != nil {
			known = fmt.Errorf("damaged before offset %d: %w", start, damage)
		}
		if err == nil {
			break
		}
		damage = err
		start += (end/logBlock + 1) * logBlock
	}
	// Where nothing follows the log may just end, as any does whose writer was killed.
	return known
}

// readBatches reads one batch after the other, and returns how many there were and
// where the last one ended.
func readBatches(r *wal.Reader, p *piece, take func(*piece) error) (n int, end int64, err error) {
	for {
		end = r.Offset()
		next, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n, end, nil
		}
		var batch []byte
		if err == nil {
			batch, err = io.ReadAll(next)
		}
		if err != nil {
			return n, end, err
		}
		n++
		writes := batchrepr.Read(batch)
		for {
			kind, key, value, ok, err := writes.Next()
			if err != nil {
				return n, end, err
			}
			if !ok {
				break
			}
			p.kind, p.key, p.value = kind, key, value
			if err := take(p); err != nil {
				return n, end, err
			}
		}
	}
}

// like converts a number to the type of another, which has no name outside pebble.
func like[T ~uint64](_ T, n uint64) T { return T(n) }
