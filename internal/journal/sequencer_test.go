package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(name string, prev object.Revision) journal.Batch {
	k := object.Key{Resource: schema.GroupResource{Resource: "pods"}, Name: name}
	return journal.Batch{Entries: []journal.Entry{{Key: k, Prev: prev, Object: &object.Object{Key: k}}}}
}

// disk is a commit that takes a second, and fails from some group on.
type disk struct {
	groups []string
	fails  int // the group that fails, from 1 on; 0 for none
}

var errDisk = errors.New("disk is on fire")

func (d *disk) commit(entries []journal.Entry) error {
	time.Sleep(time.Second)
	var names []string
	for _, e := range entries {
		names = append(names, e.Key.Name)
	}
	d.groups = append(d.groups, strings.Join(names, " "))
	if len(d.groups) == d.fails {
		return errDisk
	}
	return nil
}

// TestGroups: while one group is synced the next one fills, and what is not
// durable is not visible.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, twin := &disk{}, journaltest.NewTwin()
		s := journal.NewSequencer(twin, 0, 0, disk.commit)
		for i := range 5 {
			go func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				if _, err := s.Append(t.Context(), write(fmt.Sprint(i), 0)); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if n := len(twin.Entries()); n != 0 {
			t.Errorf("%d entries are visible before the first sync has returned", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := fmt.Sprintf("%q", disk.groups); got != `["0" "1 2 3" "4"]` {
			t.Errorf("groups %s", got)
		}
		if head, _ := s.Head(); head != 5 || len(twin.Entries()) != 5 {
			t.Errorf("head %d, %d entries", head, len(twin.Entries()))
		}
	})
}

// TestFailedGroup checks that writers of a failed group get an unknown outcome, that those behind
// it get a definite one, and that none of the entries is visible.
func TestFailedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, twin := &disk{fails: 2}, journaltest.NewTwin()
		s := journal.NewSequencer(twin, 0, 0, disk.commit)
		errs := make([]error, 6)
		for i := range errs {
			go func() {
				time.Sleep(time.Duration(i) * 400 * time.Millisecond)
				_, errs[i] = s.Append(context.Background(), write(fmt.Sprint(i), 0))
			}()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		// 0 s: 0 alone; 1 s: 1 and 2; they fail at 2 s, when 3, 4 wait, and 5 comes.
		want := []error{nil, journal.ErrUnknown, journal.ErrUnknown, journal.ErrUnavailable, journal.ErrUnavailable, journal.ErrUnavailable}
		for i := range errs {
			if !errors.Is(errs[i], want[i]) {
				t.Errorf("writer %d: %v, want %v", i, errs[i], want[i])
			}
		}
		if !errors.Is(errs[1], errDisk) {
			t.Errorf("%v does not tell the cause", errs[1])
		}
		if head, _ := s.Head(); head != 1 || len(twin.Entries()) != 1 || len(disk.groups) != 2 {
			t.Errorf("head %d, %d entries, groups %q", head, len(twin.Entries()), disk.groups)
		}
		s.Close()
	})
}

// TestResume: after a failure nothing is written until its outcome is known; then
// what was there all along is applied, and no number is used again.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, twin := &disk{fails: 2}, journaltest.NewTwin()
		s := journal.NewSequencer(twin, 0, 0, disk.commit)
		if _, err := s.Append(t.Context(), write("a", 0)); err != nil {
			t.Fatal(err)
		}
		unknown, refused := write("b", 0), write("c", 0)
		errs := make([]error, 2)
		go func() { _, errs[0] = s.Append(context.Background(), unknown) }()
		synctest.Wait()
		go func() { _, errs[1] = s.Append(context.Background(), refused) }() // waits behind it
		synctest.Wait()
		full := fmt.Errorf("%w: make room", journal.ErrFull)
		s.Fail(full)
		start := time.Now()
		if err := s.Settle(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("settled after %v, error %v", time.Since(start), err)
		}
		synctest.Wait()
		if !errors.Is(errs[0], journal.ErrUnknown) || errs[1] != full {
			t.Errorf("errors %v", errs)
		}
		if _, err := s.Append(t.Context(), write("d", 0)); err != full {
			t.Errorf("append while it is down: %v", err)
		}
		if err := s.Health(); err != full {
			t.Errorf("health: %v", err)
		}
		if _, bytes := s.Head(); len(twin.Entries()) != 1 || bytes == 0 {
			t.Errorf("%d entries, %d bytes", len(twin.Entries()), bytes)
		}
		there := unknown.Entries[0]
		there.Revision, there.Object.Revision = 2, 2
		s.Resume([]journal.Entry{there})
		if head, _ := s.Head(); head != 2 || len(twin.Entries()) != 2 || s.Health() != nil {
			t.Errorf("head %d, %d entries, health %v", head, len(twin.Entries()), s.Health())
		}
		// 3 was given to c, which is not there.
		if rev, err := s.Append(t.Context(), write("d", 0)); err != nil || rev != 4 {
			t.Errorf("revision %d, error %v", rev, err)
		}
		s.Fail(full)
		if err := s.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		s.Resume(nil)
		if rev, err := s.Append(t.Context(), write("e", 0)); err != nil || rev != 5 {
			t.Errorf("revision %d, error %v", rev, err)
		}
		s.Close()
		if err := s.Health(); err != journal.ErrClosed {
			t.Errorf("health: %v", err)
		}
	})
}

// TestRefusedCommit checks that the writers of a commit that wrote nothing get its error, and that
// it does not block other writers.
func TestRefusedCommit(t *testing.T) {
	refuse := fmt.Errorf("%w: no key", journal.ErrUnavailable)
	var err error
	twin := journaltest.NewTwin()
	s := journal.NewSequencer(twin, 0, 0, func([]journal.Entry) error { return err })
	err = refuse
	if _, got := s.Append(t.Context(), write("a", 0)); got != refuse {
		t.Errorf("append: %v", got)
	}
	err = nil
	if rev, got := s.Append(t.Context(), write("a", 0)); got != nil || rev != 2 || len(twin.Entries()) != 1 {
		t.Errorf("revision %d, error %v, %d entries", rev, got, len(twin.Entries()))
	}
}

// TestPendingKey: who writes a key that is being written waits for the outcome,
// and gives up waiting with the context.
func TestPendingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := journal.NewSequencer(journaltest.NewTwin(), 0, 0, (&disk{}).commit)
		go s.Append(t.Context(), write("a", 0))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.Append(ctx, write("a", 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append: %v", err)
		}
		start := time.Now()
		rev, err := s.Append(t.Context(), write("a", 1))
		if err != nil || rev != 2 || time.Since(start) != 1900*time.Millisecond {
			t.Errorf("revision %d after %v, error %v", rev, time.Since(start), err)
		}
		// Once it has begun, nothing stops it.
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.Append(ctx, write("a", 2)); err != nil {
			t.Errorf("append: %v", err)
		}
		go s.Append(t.Context(), write("b", 0))
		synctest.Wait()
		start = time.Now()
		s.Close()
		if time.Since(start) != time.Second {
			t.Errorf("Close waited %v for a write", time.Since(start))
		}
		if _, err := s.Append(t.Context(), write("c", 0)); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("append: %v", err)
		}
	})
}
