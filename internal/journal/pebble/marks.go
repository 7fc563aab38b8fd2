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
	markFormat    = "mformat"    // the layout of everything else
	markCompacted = "mcompacted" // history is gone up to this revision
	markSwept     = "mswept"     // and the records that went with it, up to this one
	markHead      = "mhead"      // the newest revision when the journal was last compacted
)

// format is the layout that this program reads and writes.
const format = 1

// readMarks checks the format of the store, or sets it where the store is new.
func (j *Journal) readMarks() error {
	at, err := j.mark(markFormat)
	if err != nil {
		return err
	}
	switch at {
	case 0:
		if err := j.db.Set([]byte(markFormat), encodeMark(format), pebble.Sync); err != nil {
			return err
		}
	case format:
	default:
		return fmt.Errorf("format %d is not known, only %d: written by a newer program", at, format)
	}
	compacted, err := j.mark(markCompacted)
	j.compacted.Store(int64(compacted))
	return err
}

// mark returns a mark, zero if it has not been set.
func (j *Journal) mark(name string) (object.Revision, error) {
	value, closer, err := j.db.Get([]byte(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	defer closer.Close()
	if len(value) != 8 {
		return 0, fmt.Errorf("malformed %s", name)
	}
	return object.Revision(binary.BigEndian.Uint64(value)), nil
}

func encodeMark[N ~int64 | ~int](n N) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(n))
}
