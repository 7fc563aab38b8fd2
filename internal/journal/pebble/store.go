package pebble

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// store is the files of a journal, opened once. A journal that comes back from a
// failure opens them anew.
//
// It is opened in three steps, so that nothing on the disk is given up before it is
// known to be needless: open, with which pebble reads its logs and lists; a scan of
// all records, which is compared with what there must be (see tally and headName);
// settle.
type store struct {
	dir      string
	files    vfs.FS // below disk
	disk     *disk
	db       *pebble.DB
	head     *headFile // nil if the store is read only
	known    head      // what it said when the store was opened
	marks    marks     // totals and lost are those of the last commit
	readOnly bool
	users    sync.WaitGroup
}

// openStore opens what is in the directory, or makes it where that is empty.
func (j *Journal) openStore() (s *store, err error) {
	s = &store{dir: j.dir, files: j.files, readOnly: j.opts.ReadOnly, disk: newDisk(j.files, j.opts.Logger, &j.stats.syncs)}
	if err := s.prepare(); err != nil {
		return nil, judge(s.dir, "the files of "+s.dir, err)
	}
	if err = s.openDB(j.settings(s)); err == nil {
		err = s.readMarks()
	}
	if failed := s.disk.err(); failed != nil && !pebble.IsCorruptionError(failed) {
		err = failed // a write that pebble does not know to have failed
	} else if err = errors.Join(err, failed); err != nil {
		err = judge(s.dir, "the store in "+s.dir, err)
	}
	if err != nil {
		s.abandon(err, j.leftovers)
		return nil, err
	}
	return s, nil
}

// prepare looks at the directory before pebble does, which takes any that has no
// list of files for a new one. It makes the head of a new store, and reads it.
func (s *store) prepare() error {
	if !s.readOnly {
		_ = s.files.Remove(s.files.PathJoin(s.dir, probeName)) // of one that was killed
	}
	names, err := s.files.List(s.dir)
	if err != nil {
		return err
	}
	var stored []string // the files that hold what has been written
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
		return damaged(s.dir, fmt.Sprintf("%s is missing in %s, which holds %d tables and logs", headName, s.dir, len(stored)), nil)
	case errors.Is(err, errHead):
		return damaged(s.dir, s.files.PathJoin(s.dir, headName), err)
	case err != nil:
		return err
	case s.known.state != stateReady:
		return &journal.DamagedError{
			What:   s.dir + " holds a part of what was to be restored to it",
			Advice: "remove the directory, and restore the snapshot again",
		}
	}
	if !s.readOnly && slices.Contains(names, probeName) {
		_ = s.files.Remove(s.files.PathJoin(s.dir, probeName)) // a crash has left it
	}
	list, err := pebble.Peek(s.dir, s.files)
	if err != nil {
		return err
	}
	if !list.Exists && (s.known.revision > 0 || len(stored) > 0) {
		return damaged(s.dir, fmt.Sprintf("the list of the store's files is missing in %s, which holds %d tables and logs", s.dir, len(stored)), nil)
	}
	if !s.readOnly {
		s.head, err = openHead(s.files, s.dir)
	}
	return err
}

// nothing says that a file holds nothing, whatever becomes of it.
func nothing(name string) bool { return name == "LOCK" || name == headName+unfinished }

func (s *store) openDB(settings *pebble.Options) (err error) {
	defer guard(&err)
	s.db, err = pebble.Open(s.dir, settings)
	return err
}

// readMarks reads the marks, and sets the format of a new store.
func (s *store) readMarks() (err error) {
	defer guard(&err)
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
		return errors.New("the mark of its format is missing")
	}
	if s.readOnly {
		return fmt.Errorf("there is no journal in %s", s.dir)
	}
	s.marks.format = format
	return s.db.Set([]byte(markFormat), encodeMark(format), pebble.Sync)
}

// check compares what has been read back with what there must be.
func (s *store) check(t *tally) error {
	if err := t.compare(&s.marks); err != nil {
		return damaged(s.dir, "the store in "+s.dir+" is not whole", err)
	}
	if at := s.marks.totals.head; at < s.known.revision {
		return damaged(s.dir, fmt.Sprintf("the newest writes are missing in %s: those after revision %d, of which %d has been acknowledged",
			s.dir, at, s.known.revision), nil)
	}
	return nil
}

// settle makes what has been read back durable, wherever it was read from: after a
// failed sync that may be only the memory of the operating system, and still look
// like a file. Pebble writes what it reads from logs to new tables; a flush makes
// it begin a new list of all tables, synced, if it has not done so.
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

// note writes the revision that is acknowledged next to the head.
func (s *store) note(rev object.Revision, write func(*headFile, head) error) error {
	if err := write(s.head, head{state: stateReady, revision: rev}); err != nil {
		s.disk.fail(err)
		return err
	}
	return nil
}

// close closes the store once nobody uses it.
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

// abandon closes a store that could not be opened, and leaves behind as little as
// it can that was not there.
func (s *store) abandon(err error, leftovers map[string]struct{}) {
	s.disk.fail(err)
	_ = s.close()
	s.disk.undo(leftovers)
}
