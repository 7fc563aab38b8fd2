package pebble

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// store is the files of a journal, opened once. A journal that recovers from a failure opens them
// again.
//
// It is opened in three steps, so that no data on the disk is dropped before it is known to be
// obsolete: open, in which pebble reads its logs and lists; a scan of all records, which is
// compared with the recorded totals (see tally and headName); settle.
type store struct {
	dir      string
	files    vfs.FS // below disk
	disk     *disk
	db       *pebble.DB
	head     *headFile // nil if the store is read only
	known    head      // its content when the store was opened
	marks    marks     // totals and lost are those of the last commit
	readOnly bool
	users    sync.WaitGroup
	unclosed closeQueue // snapshots
	archive  archive
}

// openStore opens the files in the directory, or creates them if it is empty.
func (j *Journal) openStore() (s *store, err error) {
	s = &store{dir: j.dir, files: j.files, readOnly: j.opts.ReadOnly, disk: newDisk(j.files, j.opts.Logger, &j.stats.syncs)}
	if err := s.prepare(); err != nil {
		return nil, judge(s.dir, "the files of "+s.dir, err)
	}
	if err = s.openDB(j.settings(s)); err == nil {
		err = s.readMarks()
	}
	if failed := s.disk.err(); failed != nil && !pebble.IsCorruptionError(failed) {
		err = failed // a failed write that pebble has not noticed
	} else if err = errors.Join(err, failed); err != nil {
		err = judge(s.dir, "the store in "+s.dir, err)
	}
	if err != nil {
		s.abandon(err, j.leftovers)
		return nil, err
	}
	return s, nil
}

// prepare checks the directory before pebble does, which treats any directory without a list of
// files as a new store. It creates the head of a new store, and reads it.
func (s *store) prepare() error {
	if !s.readOnly {
		_ = s.files.Remove(s.files.PathJoin(s.dir, probeName)) // left by a killed process
	}
	names, err := s.files.List(s.dir)
	if err != nil {
		return err
	}
	var stored []string // the files with data
	empty := true
	for _, name := range names {
		name = s.files.PathBase(name)
		empty = empty && nothing(name)
		if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") {
			stored = append(stored, name)
		}
	}
	if empty {
		if s.readOnly {
			return fmt.Errorf("there is no journal in %s", s.dir)
		}
		if err := createHead(s.files, s.dir, head{state: stateReady}); err != nil {
			return err
		}
	}
	s.known, err = readHead(s.files, s.dir)
	if noHead(err) && slices.ContainsFunc(names, func(name string) bool { return s.files.PathBase(name) == headName+restoring }) {
		s.known, err = head{state: stateImporting}, nil
	}
	switch {
	case noHead(err):
		return damaged(s.dir, fmt.Sprintf("%s is missing in %s, which contains %d tables and logs", headName, s.dir, len(stored)), nil)
	case errors.Is(err, errHead):
		return damaged(s.dir, s.files.PathJoin(s.dir, headName), err)
	case err != nil:
		return err
	case s.known.state != stateReady:
		return &journal.DamagedError{
			What:   s.dir + " contains an incomplete restore",
			Advice: "remove the directory, and restore the snapshot again",
		}
	}
	if !s.readOnly && slices.Contains(names, probeName) {
		_ = s.files.Remove(s.files.PathJoin(s.dir, probeName)) // a crash has left it
	}
	if err := s.checkFiles(names); err != nil {
		return err
	}
	list, err := pebble.Peek(s.dir, s.files)
	if err != nil {
		return err
	}
	if !list.Exists && (s.known.revision > 0 || len(stored) > 0) {
		return damaged(s.dir, fmt.Sprintf("the list of the store's files is missing in %s, which contains %d tables and logs", s.dir, len(stored)), nil)
	}
	if !s.readOnly {
		s.head, err = openHead(s.files, s.dir)
	}
	return err
}

// checkFiles rejects files of a newer pebble, which pebble's own error does not distinguish from
// damage.
func (s *store) checkFiles(names []string) error {
	marker, text, err := atomicfs.LocateMarkerInListing(s.files, s.dir, "format-version", names)
	if err != nil {
		return err
	}
	if err := marker.Close(); err != nil {
		return err
	}
	found, err := strconv.ParseUint(text, 10, 64)
	if err == nil && found > uint64(pebble.FormatNewest) {
		return unsupported("format of files", found, uint64(pebble.FormatNewest))
	}
	return nil // pebble reports a marker that is missing or malformed
}

// nothing reports whether a file contains no data.
func nothing(name string) bool {
	return name == "LOCK" || name == reserveName || name == headName+unfinished
}

func (s *store) openDB(settings *pebble.Options) (err error) {
	defer recoverDamage(&err)
	s.db, err = pebble.Open(s.dir, settings)
	return err
}

// readMarks reads the marks, and sets the format of a new store.
func (s *store) readMarks() (err error) {
	defer recoverDamage(&err)
	if s.marks, err = readMarks(s.db); err != nil || s.marks.format == format {
		return err
	}
	iter, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	empty := !iter.First()
	if err := iter.Close(); err != nil {
		return err
	}
	if !empty || s.known.revision > 0 {
		return errors.New("the format mark is missing")
	}
	if s.readOnly {
		return fmt.Errorf("there is no journal in %s", s.dir)
	}
	s.marks.format = format
	return s.db.Set([]byte(markFormat), encodeMark(format), pebble.Sync)
}

// check compares the records that were read with the recorded totals.
func (s *store) check(t *tally) error {
	if err := t.compare(&s.marks); err != nil {
		return damaged(s.dir, "the store in "+s.dir+" is incomplete", err)
	}
	if at := s.marks.totals.head; at < s.known.revision {
		return damaged(s.dir, fmt.Sprintf("the newest writes are missing in %s: those after revision %d, of which %d was acknowledged",
			s.dir, at, s.known.revision), nil)
	}
	return nil
}

// settle makes the data that was read durable, wherever it was read from: after a failed sync it
// may exist only in the memory of the operating system and still look like a file. Pebble writes
// data from logs to new tables; a flush makes it start a new, synced list of all tables, unless it
// has already done so.
func (s *store) settle() error {
	if s.readOnly {
		return nil
	}
	if !s.disk.rebased() {
		if err := s.db.Set([]byte(markFormat), encodeMark(format), pebble.Sync); err != nil {
			return err
		}
		if err := s.db.Flush(); err != nil {
			return err
		}
	}
	if err := s.disk.err(); err != nil {
		return err
	}
	return s.note(s.marks.totals.head, (*headFile).settle)
}

// note writes the acknowledged revision to the head.
func (s *store) note(rev object.Revision, write func(*headFile, head) error) error {
	if err := write(s.head, head{state: stateReady, revision: rev}); err != nil {
		s.disk.fail(err)
		return err
	}
	return nil
}

// close closes the store after its last user has released it.
func (s *store) close() error {
	s.users.Wait()
	var err error
	if s.head != nil {
		if s.disk.err() == nil {
			err = s.head.file.Sync()
		}
		err = errors.Join(err, s.head.close())
	}
	if s.db != nil {
		err = errors.Join(s.db.Close(), err)
	}
	return err
}

// abandon closes a store that could not be opened, and removes as many of the files it created as
// possible.
func (s *store) abandon(err error, leftovers map[string]struct{}) {
	s.disk.fail(err)
	_ = s.close()
	s.disk.undo(leftovers)
}
