package pebble

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// Salvaged is the result of Salvage apart from the objects.
type Salvaged struct {
	// Head is the newest revision found.
	Head object.Revision
	// Objects is the number of objects passed to yield.
	Objects int
	// Problems lists what could not be read, and what is missing.
	Problems []journal.Problem
}

// Salvage calls yield with every live object of a store that can still be read, in its newest
// readable version, in no particular order, until yield returns an error. It changes no file. For
// an intact store it reads the same objects as Recover; for a damaged one an object may be missing,
// outdated, or present although it was deleted, and then Problems is not empty.
//
// Tables and logs are read one by one, block by block, without the store that they belong to, and
// three times, so that only the keys are in memory.
func Salvage(ctx context.Context, opts Options, yield func(*object.Object) error) (found Salvaged, err error) {
	opts.ReadOnly = true
	j, err := lockDirectory(opts)
	if err != nil {
		return found, fmt.Errorf("salvage journal in %s: %w", opts.Dir, err)
	}
	defer func() { err = errors.Join(err, j.unlock()) }()
	s := salvage{
		ctx: ctx, files: wreck{files: j.files, dir: j.dir}, yield: yield,
		decode: decoder{sealer: j.opts.Sealer}, progress: j.opts.Progress,
	}
	if err := s.run(j); err != nil {
		return s.found, fmt.Errorf("salvage journal in %s: %w", opts.Dir, err)
	}
	return s.found, nil
}

type salvage struct {
	ctx    context.Context
	files  wreck
	decode decoder
	yield  func(*object.Object) error
	found  Salvaged

	progress func(read, total int64)
	seen     int64 // writes that were read, in all passes
	pass     int64 // those of the first one

	gone   map[string]struct{} // keys of records that have been removed
	swept  object.Revision     // records from logs up to this revision are not reliable
	newest map[object.Key]version
	totals totals // the newest recorded ones
}

// version is the last known state of a key.
type version struct {
	revision object.Revision
	deleted  bool
	done     bool // handed over
}

func (s *salvage) run(j *Journal) error {
	all, err := s.files.list(j)
	if err != nil {
		return err
	}
	if s.files.unlisted == nil {
		if err := s.survey(); err != nil {
			return err
		}
	}
	if !s.whole() && len(all) > len(s.files.tables) {
		s.files.tables = all
		if s.files.unlisted == nil {
			s.files.unlisted = errors.New("the list of tables is incomplete: deleted objects may reappear")
		}
	}
	if s.files.unlisted != nil {
		if err := s.survey(); err != nil {
			return err
		}
	}
	if !s.whole() {
		s.problem(object.Key{}, 0, fmt.Errorf("found %d objects, but the store recorded %d, and they differ", s.live().live, s.totals.live))
	}
	for _, err := range s.files.problems {
		s.problem(object.Key{}, 0, err)
	}
	if err := s.read(s.handOver); err != nil {
		return err
	}
	for key, v := range s.newest {
		if !v.deleted && !v.done {
			s.problem(key, v.revision, errors.New("cannot be read"))
		}
	}
	switch h, err := readHead(j.files, j.dir); {
	case err != nil:
		s.problem(object.Key{}, 0, fmt.Errorf("%s: %w", headName, err))
	case h.revision > s.found.Head:
		s.problem(object.Key{}, 0, fmt.Errorf("the writes after revision %d are missing, the last one was %d", s.found.Head, h.revision))
		s.found.Head = h.revision
	}
	return nil
}

// survey collects the existing versions: which records have been removed is known only after
// everything has been read.
func (s *salvage) survey() error {
	s.gone, s.newest = map[string]struct{}{}, map[object.Key]version{}
	s.found, s.totals, s.swept = Salvaged{}, totals{}, 0
	if err := s.read(s.noteRemovals); err != nil {
		return err
	}
	return s.read(s.noteVersions)
}

// live adds up what there is.
func (s *salvage) live() (t totals) {
	for _, v := range s.newest {
		if !v.deleted {
			t.add(v.revision)
		}
	}
	return t
}

// whole reports whether the objects found match the recorded totals.
func (s *salvage) whole() bool {
	t := s.live()
	return t.live == s.totals.live && t.sum == s.totals.sum
}

func (s *salvage) problem(key object.Key, rev object.Revision, err error) {
	s.found.Problems = append(s.found.Problems, journal.Problem{Key: key, Revision: rev, Text: err.Error()})
}

// passes is how often all writes are read, unless the list of tables is incomplete.
const passes = 3

// read calls take with every write that can be read.
func (s *salvage) read(take func(*piece) error) error {
	s.files.problems = nil
	err := s.files.each(func(p *piece) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if s.seen++; s.seen%ctxEvery == 0 && s.progress != nil {
			s.progress(s.seen, passes*s.pass)
		}
		return take(p)
	})
	if s.pass == 0 {
		s.pass = s.seen
	}
	return err
}

func (s *salvage) noteRemovals(p *piece) error {
	switch {
	case p.kind == pebble.InternalKeyKindDelete:
		s.gone[string(p.key)] = struct{}{}
	case p.kind != pebble.InternalKeyKindSet || len(p.value) < 8:
	case string(p.key) == markTotals:
		if t, ok := decodeTotals(p.value); ok && t.head >= s.totals.head {
			s.totals = t
			s.found.Head = max(s.found.Head, t.head)
		}
	case string(p.key) == markSwept && !p.log:
		s.swept = max(s.swept, decodeMark(p.value))
	}
	return nil
}

// record returns the record that a write made, if it is still valid.
//
// A log may have been moved to tables long ago, and its records may have been swept from these
// without a trace. But the tables record how far they have been swept, and later records have not
// been.
func (s *salvage) record(p *piece) (r record, ok bool, err error) {
	if p.kind != pebble.InternalKeyKindSet || len(p.key) == 0 || p.key[0] != 'r' {
		return r, false, nil
	}
	if _, gone := s.gone[string(p.key)]; gone {
		return r, false, nil
	}
	prefix, rev, err := splitRecordKey(p.key)
	if err != nil {
		return r, false, err
	}
	if p.log && rev <= s.swept {
		return r, false, nil
	}
	if r, err = parseRecord(p.value); err != nil {
		return r, false, err
	}
	r.revision = rev
	r.resource, err = resourceOf(prefix)
	return r, err == nil, err
}

func (s *salvage) noteVersions(p *piece) error {
	r, ok, err := s.record(p)
	if err != nil {
		s.problem(object.Key{}, 0, fmt.Errorf("%s: record %q: %w", p.file, p.key, err))
	}
	if !ok {
		return nil
	}
	s.found.Head = max(s.found.Head, r.revision)
	key := r.key()
	if at := s.newest[key]; r.revision > at.revision {
		s.newest[key] = version{revision: r.revision, deleted: r.deleted}
	}
	return nil
}

func (s *salvage) handOver(p *piece) error {
	r, ok, _ := s.record(p) // its error is known
	if !ok || r.deleted {
		return nil
	}
	key := r.key()
	v := s.newest[key]
	if v.revision != r.revision || v.done {
		return nil
	}
	v.done = true
	s.newest[key] = v
	o, err := s.decode.object(key, r.own())
	if err != nil {
		s.problem(key, r.revision, err)
		return nil
	}
	s.found.Objects++
	return s.yield(o)
}
