package pebble

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A full store needs space to become smaller: a deletion is a record, too, and a compaction writes
// new tables before it removes old ones. The journal therefore allocates a file of unused space and
// removes it when the disk is full. From then on it accepts only batches that free space, until
// there is enough for everything including that file.
const (
	reserveName    = "RESERVE"
	defaultReserve = 48 << 20 // enough to open the store, and for some thousand deletions
	// reserveShare limits the reserve to a fourth of the disk.
	reserveShare = 4
)

// ensureReserve checks whether there is space for writes, and creates the reserve if there is. It
// is called before the store is opened, because opening writes.
func (j *Journal) ensureReserve() {
	if j.opts.ReserveBytes <= 0 || j.opts.ReadOnly {
		return
	}
	have := j.hasReserve()
	if usage, err := j.files.GetDiskUsage(j.dir); err == nil {
		j.opts.ReserveBytes = min(j.opts.ReserveBytes, int64(usage.TotalBytes/reserveShare))
	}
	need, free, known := j.room()
	switch {
	case known && free < need && have:
		j.releaseReserve()
	case known && free < need, !have && known && free < need+j.opts.ReserveBytes:
		j.scarce.Store(true)
		j.opts.Logger.Error("disk is nearly full: journal accepts only deletions until space is freed",
			"dir", j.dir, "free", free, "needed", need+j.opts.ReserveBytes)
	case !have:
		if err := j.makeReserve(); err != nil {
			j.opts.Logger.Warn("journal has no reserve for deletions on a full disk", "dir", j.dir, "error", err)
		}
	}
}

func (j *Journal) hasReserve() bool {
	_, err := j.files.Stat(j.files.PathJoin(j.dir, reserveName))
	return err == nil
}

// makeReserve allocates the reserve; on a file system that cannot allocate, the reserve is an empty
// file.
func (j *Journal) makeReserve() error {
	name := j.files.PathJoin(j.dir, reserveName)
	f, err := j.files.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = f.Preallocate(0, j.opts.ReserveBytes)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, j.files.Remove(name))
	}
	return nil
}

// releaseReserve removes the reserve, if there is one.
func (j *Journal) releaseReserve() {
	if j.opts.ReserveBytes <= 0 || j.files.Remove(j.files.PathJoin(j.dir, reserveName)) != nil {
		return
	}
	j.scarce.Store(true)
	need, free, _ := j.room()
	j.opts.Logger.Error("disk is full: journal released its reserve and accepts only deletions until space is freed",
		"dir", j.dir, "free", free, "needed", need+j.opts.ReserveBytes)
}

// room returns the bytes that opening the store needs, and the free bytes. Some file systems do not
// report them.
func (j *Journal) room() (need, free int64, known bool) {
	need = reserve
	names, _ := j.files.List(j.dir)
	for _, name := range names {
		if info, err := j.files.Stat(j.files.PathJoin(j.dir, name)); err == nil && strings.HasSuffix(name, ".log") {
			need += info.Size()
		}
	}
	usage, err := j.files.GetDiskUsage(j.dir)
	return need, int64(usage.AvailBytes), err == nil
}

// shortage returns an ErrFull while the reserve is released. It recreates the reserve as soon as
// there is space.
func (j *Journal) shortage() error {
	if !j.scarce.Load() {
		return nil
	}
	j.restoring.Lock()
	defer j.restoring.Unlock()
	if !j.scarce.Load() {
		return nil
	}
	need, free, _ := j.room()
	need += j.opts.ReserveBytes
	if free >= need && j.makeReserve() == nil {
		j.scarce.Store(false)
		j.opts.Logger.Info("journal accepts all writes again", "dir", j.dir, "free", free)
		return nil
	}
	return fmt.Errorf("%w: %d bytes are free on the disk of %s, at least %d are required: only deletions are accepted until space is freed",
		journal.ErrFull, free, j.dir, need)
}

// frees reports whether a batch makes the store smaller: it deletes an object or completes a
// deletion, and creates none.
func frees(b *journal.Batch) bool {
	frees := false
	for i := range b.Entries {
		e := &b.Entries[i]
		if e.Object != nil && e.Prev == 0 {
			return false
		}
		frees = frees || e.Object == nil || e.Object.Meta.Deleting()
	}
	return frees
}
