package pebble

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// headName is a file beside those of pebble that holds the revision up to which writes have been
// acknowledged.
//
// The end of a log does not show whether more was written behind it: it looks the same whether a
// crash cut off a write that was never acknowledged, or damage removed one that was. The journal
// therefore records every group here before it acknowledges it. The record is not synced: it
// survives the end of the process at once, and after a crash of the machine it may be older than
// the durable writes, but never newer.
//
// The file has two slots in separate pages, which are written alternately, so that a torn write
// leaves the other slot intact.
//
// The file is read before pebble opens any other. A program that writes another format of the store
// writes another version into both slots, so that older programs refuse the store and do not change
// it.
const headName = "HEAD"

const (
	headPage = 4096
	headSlot = 8 + 1 + 8 + 4 // magic, state, revision, checksum of these
	magic    = "kapokhd1"

	headVersion = 1 // the last digit of magic

	unfinished = ".new"       // suffix of the file while it is created
	restoring  = ".restoring" // the same for a store that is being restored
)

// The states of a store that its head records.
const (
	stateReady     = 'r'
	stateImporting = 'i' // an import has not completed
)

var errHead = errors.New("checksum mismatch")

// head is the content of the file.
type head struct {
	state    byte
	revision object.Revision
}

// headFile is the open file. It is used by one goroutine at a time.
type headFile struct {
	file vfs.File
	next int64 // the slot to write
}

func encodeHead(h head) []byte {
	b := append([]byte(magic), h.state)
	b = binary.BigEndian.AppendUint64(b, uint64(h.revision))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

func decodeHead(b []byte) (h head, ok bool) {
	if len(b) < headSlot || string(b[:8]) != magic {
		return h, false
	}
	if crc32.Checksum(b[:headSlot-4], castagnoli()) != binary.BigEndian.Uint32(b[headSlot-4:]) {
		return h, false
	}
	return head{b[8], object.Revision(binary.BigEndian.Uint64(b[9:]))}, true
}

// newerHead returns the version of a slot that a newer program has written, or 0.
func newerHead(b []byte) int {
	name, is := strings.CutPrefix(string(b[:min(len(b), len(magic))]), magic[:len(magic)-1])
	if version, err := strconv.Atoi(name); is && err == nil && version > headVersion {
		return version
	}
	return 0
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// createHead creates the file: when the file exists, it is complete and durable.
func createHead(files vfs.FS, dir string, h head) error {
	name, suffix := files.PathJoin(dir, headName), unfinished
	if h.state == stateImporting {
		suffix = restoring
	}
	f, err := files.Create(name+suffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	page := make([]byte, 2*headPage)
	copy(page, encodeHead(h))
	copy(page[headPage:], encodeHead(h))
	if _, err = f.Write(page); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := files.Rename(name+suffix, name); err != nil {
		return err
	}
	return syncDir(files, dir)
}

func syncDir(files vfs.FS, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readHead reads the file. It returns fs.ErrNotExist if there is none, errFormat if a newer program
// has written it, and errHead if neither slot is intact.
func readHead(files vfs.FS, dir string) (h head, err error) {
	f, err := files.Open(files.PathJoin(dir, headName))
	if err != nil {
		return h, err
	}
	defer f.Close()
	found, newer := false, 0
	for slot := range int64(2) {
		b := make([]byte, headSlot)
		n, err := f.ReadAt(b, slot*headPage)
		if err != nil && !errors.Is(err, io.EOF) {
			return h, err
		}
		if at, ok := decodeHead(b[:n]); ok && (!found || at.revision >= h.revision) {
			h, found = at, true
		}
		newer = max(newer, newerHead(b[:n]))
	}
	switch {
	case !found && newer > 0:
		return h, unsupported("version of "+headName, newer, headVersion)
	case !found:
		return h, errHead
	}
	return h, nil
}

// openHead opens the file to write to it.
func openHead(files vfs.FS, dir string) (*headFile, error) {
	name := files.PathJoin(dir, headName)
	if _, err := files.Stat(name); err != nil {
		return nil, err // do not create it
	}
	f, err := files.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &headFile{file: f}, nil
}

// write writes a head over the older slot. It does not sync.
func (f *headFile) write(h head) error {
	_, err := f.file.WriteAt(encodeHead(h), f.next*headPage)
	f.next = 1 - f.next
	return err
}

// settle writes a head to both slots, one after the other, and syncs each.
func (f *headFile) settle(h head) error {
	return errors.Join(f.write(h), f.file.Sync(), f.write(h))
}

func (f *headFile) close() error { return f.file.Close() }

// noHead reports whether an error of readHead means that there is no file.
func noHead(err error) bool { return errors.Is(err, fs.ErrNotExist) }
