package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// letters is a sealer of pods, which puts a letter and the key in front and mirrors
// the rest. It reads what any letter has sealed.
type letters struct {
	letter string
	fail   error
}

func (l letters) prefix(key object.Key, letter string) string {
	return "sealed:" + letter + ":" + key.String() + ":"
}

func mirror(b []byte) []byte {
	b = bytes.Clone(b)
	for i := range b {
		b[i] ^= 0xff
	}
	return b
}

func (l letters) Ready(object.Key) error { return nil }

func (l letters) Seal(key object.Key, raw []byte) ([]byte, error) {
	if l.fail != nil || key.Resource != pods {
		return raw, l.fail
	}
	return append([]byte(l.prefix(key, l.letter)), mirror(raw)...), nil
}

func (l letters) Open(key object.Key, stored []byte) (raw []byte, stale bool, err error) {
	if !bytes.HasPrefix(stored, []byte("sealed:")) {
		return stored, key.Resource == pods, nil
	}
	letter := string(stored[7:8])
	if !bytes.HasPrefix(stored, []byte(l.prefix(key, letter))) {
		return nil, false, errors.New("sealed for another key")
	}
	return mirror(stored[len(l.prefix(key, letter)):]), letter != l.letter, nil
}

// TestSealer: encrypted records can be read by every kind of read, and only with a
// sealer; so can records from before, which are reported as stale.
func TestSealer(t *testing.T) {
	fs := vfs.NewMem()
	open := func(sealer journal.Sealer) (*Journal, *journaltest.Twin, error) {
		j, err := Open(Options{Dir: "journal", FS: fs, Logger: quiet, Sealer: sealer, MemTableBytes: 8 << 10, firstRetry: 100 * time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		twin := journaltest.NewTwin()
		err = j.Recover(t.Context(), twin)
		return j, twin, err
	}
	history := journaltest.NewTwin()
	for i, sealer := range []journal.Sealer{nil, letters{letter: "a"}, letters{letter: "b"}} {
		j, twin, err := open(sealer)
		if err != nil {
			t.Fatal(err)
		}
		if err := history.SameObjects(twin); err != nil {
			t.Error(err)
		}
		for _, o := range twin.Live() {
			if o.Stale != (o.Key.Resource == pods) {
				t.Errorf("%s is stale: %t", o.Key, o.Stale)
			}
		}
		if err := script(t, j, twin, func() {}); err != nil {
			t.Fatal(err)
		}
		for _, resource := range []string{"pods", "nodes"} {
			r := pods
			if resource == "nodes" {
				r = nodes
			}
			records, err := j.History(t.Context(), r, j.Compacted(), twin.Head(), 0)
			if err != nil || len(records) == 0 {
				t.Errorf("%d records, error %v", len(records), err)
			}
			for _, record := range records {
				if record.Object != nil && !strings.HasPrefix(string(record.Object.Raw), "{") {
					t.Errorf("history of %s", record.Object.Raw)
				}
			}
		}
		j.life.store.disk.fail(errors.New("as if"))
		await(t, func() bool { return j.Health() == nil })
		if report, err := j.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Errorf("check: %+v, error %v", report, err)
		}
		e := put(pods, fmt.Sprint("last", i), 0, "secret")
		rev, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}})
		if err != nil {
			t.Fatal(err)
		}
		value, closer, err := j.life.store.db.Get(appendRecordKey(nil, pods, rev))
		if err != nil {
			t.Fatal(err)
		}
		if sealed := !bytes.Contains(value, []byte("secret")); sealed != (sealer != nil) {
			t.Errorf("stored %q", value)
		}
		closer.Close()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		found, err := Salvage(t.Context(), Options{Dir: "journal", FS: fs, Logger: quiet, Sealer: sealer}, func(o *object.Object) error {
			if !strings.HasPrefix(string(o.Raw), "{") {
				t.Errorf("salvaged %q", o.Raw)
			}
			return nil
		})
		if err != nil || len(found.Problems) > 0 || found.Objects != len(twin.Live()) {
			t.Errorf("salvaged %+v, error %v", found, err)
		}
		history = twin
	}
	_, _, err := open(nil)
	var damaged *journal.DamagedError
	if !errors.Is(err, errNoSealer) || errors.As(err, &damaged) || !strings.Contains(err.Error(), "pods/") {
		t.Errorf("opened without a sealer: %v", err)
	}
}

// TestSealerFails: an object that cannot be sealed is not written, and writes go on.
func TestSealerFails(t *testing.T) {
	broken := errors.New("no key")
	sealer := &letters{letter: "a", fail: broken}
	j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet, Sealer: sealer})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	write := func() error {
		_, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "a", 0, "")}})
		return err
	}
	if err := write(); !errors.Is(err, journal.ErrUnavailable) || !errors.Is(err, broken) || errors.Is(err, journal.ErrUnknown) {
		t.Errorf("append: %v", err)
	}
	sealer.fail = nil
	if err := write(); err != nil || len(twin.Live()) != 1 {
		t.Errorf("append: %v", err)
	}
	if report, err := j.Check(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %+v, error %v", report, err)
	}
}

// TestSealerNotReady: a batch that cannot be encrypted fails alone.
func TestSealerNotReady(t *testing.T) {
	missing := errors.New("no key")
	sealer := unready{letters{letter: "a"}, missing}
	j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet, Sealer: sealer})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			_, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, fmt.Sprint(i), 0, "")}})
			if !errors.Is(err, missing) || errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("append of a pod: %v", err)
			}
		})
		writers.Go(func() {
			if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(nodes, fmt.Sprint(i), 0, "")}}); err != nil {
				t.Errorf("append of a node: %v", err)
			}
		})
	}
	writers.Wait()
	if n := len(twin.Live()); n != 8 {
		t.Errorf("%d objects", n)
	}
}

// unready is a sealer that cannot encrypt pods.
type unready struct {
	letters
	err error
}

func (u unready) Ready(key object.Key) error {
	if key.Resource == pods {
		return u.err
	}
	return nil
}

func (u unready) Seal(key object.Key, raw []byte) ([]byte, error) {
	if err := u.Ready(key); err != nil {
		return nil, err
	}
	return u.letters.Seal(key, raw)
}
