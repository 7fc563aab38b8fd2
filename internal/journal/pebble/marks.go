package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// Marks are numbers about the whole journal, under keys that start with m.
const (
	markFormat    = "mformat"    // the version of the layout
	markCompacted = "mcompacted" // history is dropped up to this revision
	markSwept     = "mswept"     // and the superseded records are removed up to this one
	markTotals    = "mtotals"    // what the store must contain; see totals
	markLost      = "mlost"      // revisions that were never committed; see lost
)

// format is the layout that this program reads and writes. A program that writes another one must
// read the stores of all earlier releases, of which test/stores has examples, and change the
// version of HEAD.
const format = 2

// errFormat is in the errors about stores that this program cannot read, although they are intact.
// Its text is the advice at their end.
var errFormat = errors.New("the store was written by a newer version of kapok or by an unreleased one: " +
	"start that version, or restore a snapshot that was saved before the upgrade to another directory")

// unsupported returns an error about the format of a part of the store.
func unsupported[N ~int | ~int64 | ~uint64](what string, found, supported N) error {
	return fmt.Errorf("%s %d is not supported, this version of kapok reads %d: %w", what, found, supported, errFormat)
}

// marks are all marks of a store.
type marks struct {
	format           object.Revision
	compacted, swept object.Revision
	totals           totals
	lost             lost
}

func readMarks(r pebble.Reader) (m marks, err error) {
	for _, mark := range []struct {
		name string
		at   *object.Revision
	}{{markFormat, &m.format}, {markCompacted, &m.compacted}, {markSwept, &m.swept}} {
		if *mark.at, err = readMark(r, mark.name); err != nil {
			return m, err
		}
	}
	if m.format != 0 && m.format != format {
		return m, unsupported("format", m.format, format)
	}
	err = getMark(r, markTotals, func(value []byte) (ok bool) {
		m.totals, ok = decodeTotals(value)
		return ok
	})
	if err != nil {
		return m, err
	}
	err = getMark(r, markLost, func(value []byte) (ok bool) {
		m.lost, ok = decodeLost(value)
		return ok
	})
	return m, err
}

// readMark returns a mark, or zero if it is not set.
func readMark(r pebble.Reader, name string) (rev object.Revision, err error) {
	err = getMark(r, name, func(value []byte) bool {
		if len(value) != 8 {
			return false
		}
		rev = decodeMark(value)
		return rev >= 0
	})
	return rev, err
}

// getMark decodes a mark, if there is one.
func getMark(r pebble.Reader, name string, decode func([]byte) bool) error {
	value, closer, err := r.Get([]byte(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer closer.Close()
	if !decode(value) {
		return fmt.Errorf("malformed %s", name)
	}
	return nil
}

func encodeMark[N ~int64 | ~int](n N) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(n))
}

func decodeMark(b []byte) object.Revision { return object.Revision(binary.BigEndian.Uint64(b)) }
