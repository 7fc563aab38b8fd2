package pebble

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	wal "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// wreck is the files of a store that may be damaged.
type wreck struct {
	files    vfs.FS // nothing is written to it
	dir      string
	tables   []string
	logs     []string
	problems []error // errors of files that could not be read
	unlisted error   // why the tables of the store are unknown; nil if they are known
}

// piece is one write found in a file. It is valid until the function that receives it returns.
type piece struct {
	file       string
	log        bool
	kind       pebble.InternalKeyKind
	key, value []byte
}

// list finds the files. Of the tables it takes those in the store's own list, if that can be read,
// because others may contain records that were removed long ago. It returns all tables.
func (w *wreck) list(j *Journal) (all []string, err error) {
	names, err := w.files.List(w.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		switch name = w.files.PathBase(name); {
		case strings.HasSuffix(name, ".sst"):
			all = append(all, name)
		case strings.HasSuffix(name, ".log"):
			w.logs = append(w.logs, name)
		}
	}
	slices.Sort(all)
	slices.Sort(w.logs)
	w.tables = all
	listed, err := w.listed(j)
	if err != nil {
		w.unlisted = fmt.Errorf("the list of tables cannot be read, deleted objects may reappear: %w", err)
		return all, nil
	}
	w.tables = listed
	return all, nil
}

// listed returns the tables in the store's own list. Its logs are hidden from pebble, which rejects
// a store with damaged ones.
func (w *wreck) listed(j *Journal) (names []string, err error) {
	defer recoverDamage(&err)
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
		defer recoverDamage(&err)
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
