package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

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
