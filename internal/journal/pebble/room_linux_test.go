package pebble

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/long"
)

// smallDisk mounts a file system of so many bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	long.Only(t, "it takes root, and as much memory as the disk has bytes")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("cannot mount a tmpfs, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// lines is a buffer for a logger.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.String(), text)
}

// fullRig is a journal on a small disk, and what it holds.
type fullRig struct {
	*Journal
	t    *testing.T
	twin *journaltest.Twin
	log  lines
	n    int
}

func openSmall(t *testing.T, dir string) *fullRig {
	t.Helper()
	r := &fullRig{t: t, twin: journaltest.NewTwin()}
	var err error
	if r.Journal, err = Open(Options{Dir: filepath.Join(dir, "journal"), Logger: slog.New(slog.NewTextHandler(&r.log, nil))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := r.Recover(t.Context(), r.twin); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *fullRig) create() error {
	r.n++
	_, err := r.Append(r.t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, fmt.Sprint(r.n), 0, noise())}})
	return err
}

// noise is 100 KB that cannot be compressed.
func noise() string {
	data := make([]byte, 50<<10)
	_, _ = rand.Read(data) // it does not fail
	return hex.EncodeToString(data)
}

func (r *fullRig) remove(n int) error {
	key := put(pods, fmt.Sprint(n), 0, "").Key
	_, err := r.Append(r.t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Prev: r.twin.Revision(key)}}})
	return err
}

// TestFullDiskTakesDeletions fills a real disk: writes are refused, objects can be deleted, and
// once history has been compacted there is room for writes again.
func TestFullDiskTakesDeletions(t *testing.T) {
	r := openSmall(t, smallDisk(t, 192<<20))
	var err error
	for err == nil && r.n < 2000 {
		err = r.create()
	}
	if !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrFull) {
		t.Fatalf("after %d writes: %v", r.n, err)
	}
	last := r.n
	await(t, func() bool { return r.remove(1) == nil })
	// What opening the store has freed may do for some more writes, and for the reserve.
	await(t, func() bool {
		err := r.create()
		return errors.Is(err, journal.ErrFull) && strings.Contains(err.Error(), "bytes are free")
	})
	if !r.log.has("released its reserve") {
		t.Errorf("the log does not tell: %s", &r.log)
	}
	for n := 2; n < last; n++ {
		await(t, func() bool { return r.remove(n) == nil || r.twin.Revision(put(pods, fmt.Sprint(n), 0, "").Key) == 0 })
	}
	head, _ := r.Head()
	await(t, func() bool { return r.Compact(t.Context(), head) == nil })
	// The store frees room bit by bit, and needs some for that.
	await(t, func() bool { return r.create() == nil && r.Health() == nil && r.hasReserve() })
}

// TestStartOnFullDisk starts on a disk that other programs have filled: this is logged, and objects
// can be deleted.
func TestStartOnFullDisk(t *testing.T) {
	for _, reserved := range []bool{true, false} {
		t.Run(fmt.Sprintf("reserved=%t", reserved), func(t *testing.T) {
			dir := smallDisk(t, 192<<20)
			r := openSmall(t, dir)
			for range 3 {
				if err := r.create(); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			leave := 512 << 10
			fill := func(name string, leave int) string {
				var disk syscall.Statfs_t
				if err := syscall.Statfs(dir, &disk); err != nil {
					t.Fatal(err)
				}
				name = filepath.Join(dir, name)
				if err := os.WriteFile(name, make([]byte, max(0, int(disk.Bavail)*int(disk.Bsize)-leave)), 0o600); err != nil {
					t.Fatal(err)
				}
				return name
			}
			if !reserved { // one of an older release
				if err := os.Remove(filepath.Join(dir, "journal", reserveName)); err != nil {
					t.Fatal(err)
				}
				leave = 16 << 20
			}
			other := fill("other", leave)
			r = openSmall(t, dir)
			if !r.log.has("full") || !r.log.has("free=") || !r.log.has("needed=") {
				t.Errorf("the log does not tell: %s", &r.log)
			}
			more := fill("more", 20<<20) // what opening has freed
			r.n = 3
			if err := r.create(); !errors.Is(err, journal.ErrFull) {
				t.Errorf("a write on a full disk: %v; log: %s", err, &r.log)
			}
			if err := r.remove(1); err != nil {
				t.Errorf("a deletion on a full disk: %v", err)
			}
			for _, name := range []string{other, more} {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.create(); err != nil {
				t.Errorf("a write where there is room again: %v", err)
			}
		})
	}
}

// TestFrees: what is taken while there is only the reserve.
func TestFrees(t *testing.T) {
	create, update := put(pods, "a", 0, ""), put(pods, "a", 3, "")
	deletion := journal.Entry{Key: update.Key, Prev: 3}
	tree, err := update.Object.Tree()
	if err != nil {
		t.Fatal(err)
	}
	tree["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	going := update
	if going.Object, err = object.New(update.Key, tree, 0, update.Object.Written); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		entries []journal.Entry
		want    bool
	}{
		{[]journal.Entry{create}, false},
		{[]journal.Entry{update}, false},
		{[]journal.Entry{deletion}, true},
		{[]journal.Entry{going}, true},
		{[]journal.Entry{deletion, update}, true}, // of what it has claimed
		{[]journal.Entry{deletion, create}, false},
	} {
		if got := frees(&journal.Batch{Entries: test.entries}); got != test.want {
			t.Errorf("%+v: %t", test.entries, got)
		}
	}
}
