package pebble

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// small is a disk with room for so many bytes.
type small struct {
	vfs.FS
	mu    sync.Mutex
	room  int64
	quota bool  // it does not tell how much is left
	err   error // of a write for which there is no room
}

func (s *small) used() (n int64) {
	names, _ := s.FS.List("journal")
	for _, name := range names {
		if name == probeName {
			continue // it is there for a moment, and counts where it is written
		}
		if info, err := s.FS.Stat("journal/" + name); err == nil {
			n += info.Size()
		}
	}
	return n
}

func (s *small) GetDiskUsage(string) (vfs.DiskUsage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quota {
		return vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40}, nil
	}
	free := uint64(max(0, s.room-s.used()))
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: uint64(s.room), UsedBytes: uint64(s.room) - free}, nil
}

func (s *small) resize(room int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
}

type smallFile struct {
	vfs.File
	disk *small
}

func (s *small) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return smallFile{f, s}, err
}

func (f smallFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	info, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	used := f.disk.used()
	if info.Name() == probeName {
		used += info.Size()
	}
	if free := max(0, f.disk.room-used); int64(len(p)) > free {
		n, err := f.File.Write(p[:free])
		return n, errors.Join(f.disk.err, err)
	}
	return f.File.Write(p)
}

// TestFullDisk checks that without space writers get an error and everything else continues, that
// the journal's attempts to recover need no space, and that it recovers once there is space.
func TestFullDisk(t *testing.T) {
	for _, disk := range []*small{
		{err: syscall.ENOSPC},
		{err: syscall.EDQUOT, quota: true},
	} {
		t.Run(disk.err.Error(), func(t *testing.T) {
			disk.FS, disk.room = vfs.NewMem(), 300<<10
			j, err := Open(Options{Dir: "journal", FS: crashable{disk}, Logger: quiet, MemTableBytes: 32 << 10, firstRetry: 20 * time.Microsecond})
			if err != nil {
				t.Fatal(err)
			}
			twin := journaltest.NewTwin()
			if err := j.Recover(t.Context(), twin); err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("%02000d", 0)
			n := 0
			write := func() error {
				n++
				_, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, fmt.Sprint(n), 0, text)}})
				return err
			}
			for err == nil && n < 1000 {
				err = write()
			}
			if !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrFull) {
				t.Fatalf("after %d writes: %v", n, err)
			}
			var used int64
			for i := range 20 {
				if err := write(); !errors.Is(err, journal.ErrFull) || !errors.Is(err, disk.err) {
					t.Fatalf("write on a full disk: %v", err)
				}
				if err := j.Health(); !errors.Is(err, journal.ErrFull) {
					t.Errorf("health: %v", err)
				}
				if _, err := j.History(t.Context(), pods, j.Compacted(), twin.Head(), 0); !errors.Is(err, journal.ErrFull) {
					t.Errorf("history: %v", err)
				}
				tried := j.Stats().Attempts
				await(t, func() bool { return j.Stats().Attempts > tried+1 })
				now := disk.used()
				if used != 0 && now > used {
					t.Errorf("round %d: %d bytes are used, were %d", i, now, used)
				}
				used = now
			}
			disk.resize(20 << 20)
			await(t, func() bool { return j.Health() == nil })
			for range 50 {
				if err := write(); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			got, compacted := readBack(t, disk)
			checkPrefix(t, twin.Entries(), twin.Head(), got, compacted)
		})
	}
}

// TestFailedAttempts: an attempt to come back that fails half-way leaves no files.
func TestFailedAttempts(t *testing.T) {
	for _, which := range []string{".sst", ".log", ".dbtmp", "MANIFEST", "marker.manifest", headName} {
		t.Run(which, func(t *testing.T) {
			var bad atomic.Bool
			mem := vfs.NewMem()
			disk := crashable{errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if bad.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, which) {
					return syscall.EIO
				}
				return nil
			}))}
			j, err := Open(Options{Dir: "journal", FS: disk, Logger: quiet, firstRetry: 20 * time.Microsecond})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			twin := journaltest.NewTwin()
			if err := j.Recover(t.Context(), twin); err != nil {
				t.Fatal(err)
			}
			if err := script(t, j, twin, func() {}); err != nil {
				t.Fatal(err)
			}
			// So that a log must go to a table.
			if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "late", 0, "")}}); err != nil {
				t.Fatal(err)
			}
			bad.Store(true)
			j.life.store.disk.fail(syscall.EIO)
			// tried counts the files after some attempts, and returns the numbers of attempts before and
			// after the count.
			tried := func(n int64) (files int, before, after int64) {
				await(t, func() bool { return j.Stats().Attempts >= n })
				before = j.Stats().Attempts
				names, err := mem.List("journal")
				if err != nil {
					t.Fatal(err)
				}
				return len(names), before, j.Stats().Attempts
			}
			// Once there is a new list of files, only little is made in each attempt.
			before, first, _ := tried(2)
			after, _, last := tried(10)
			attempts := int(last-first) + 1 // and the one under way
			if after > before+4*attempts || which == ".sst" && after > before {
				t.Errorf("%d files, then %d after %d attempts", before, after, attempts)
			}
			if j.Health() == nil {
				t.Error("all is well")
			}
			bad.Store(false)
			await(t, func() bool { return j.Health() == nil })
			if err := script(t, j, twin, func() {}); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { // pebble removes what is left in a goroutine of its own
				names, err := mem.List("journal")
				return err == nil && len(names) <= 30
			})
		})
	}
}
