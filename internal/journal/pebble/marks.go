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

// format is the layout that this program reads and writes.
const format = 2

var errFormat = errors.New("written by a newer version of kapok or by an unreleased one")

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
		return m, fmt.Errorf("format %d is not supported: must be %d: %w", m.format, format, errFormat)
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
