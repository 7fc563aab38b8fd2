package journal_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
)

// tape is a journal of which only the head and the compaction are real.
type tape struct {
	journal.Journal
	sync.Mutex
	head      object.Revision
	bytes     int64
	compacted object.Revision
	fail      error
}

func (t *tape) Head() (object.Revision, int64) {
	t.Lock()
	defer t.Unlock()
	return t.head, t.bytes
}

func (t *tape) Compacted() object.Revision {
	t.Lock()
	defer t.Unlock()
	return t.compacted
}

func (t *tape) Compact(_ context.Context, upTo object.Revision) error {
	t.Lock()
	defer t.Unlock()
	if t.fail == nil {
		t.compacted = upTo
	}
	return t.fail
}

// write appends entries of 100 bytes.
func (t *tape) write(n object.Revision) {
	t.Lock()
	defer t.Unlock()
	t.head += n
	t.bytes += 100 * int64(n)
}

func (t *tape) mend() {
	t.Lock()
	defer t.Unlock()
	t.fail = nil
}

func TestCompactor(t *testing.T) {
	type step struct {
		wait  time.Duration
		write object.Revision // so many entries of 100 bytes, at the end of wait
		want  object.Revision // compacted then
	}
	policy := journal.Policy{Keep: time.Minute, KeepBytes: 2000, Every: 10 * time.Second}
	for _, test := range []struct {
		name  string
		tape  *tape
		steps []step
	}{
		{"keeps what is young", &tape{}, []step{
			{wait: time.Second, write: 5},
			{wait: 60 * time.Second}, // measured at 10 s
		}},
		{"forgets what is old", &tape{}, []step{
			{wait: time.Second, write: 5},
			{wait: 30 * time.Second, write: 5},
			{wait: 40 * time.Second, want: 5},
			{wait: 30 * time.Second, want: 10},
			{wait: time.Hour, want: 10},
		}},
		{"forgets what is too much", &tape{}, []step{
			{wait: time.Second, write: 10},
			{wait: 10 * time.Second, write: 10},
			{wait: 10 * time.Second, want: 0}, // 2000 bytes are allowed
			{wait: 0, write: 1},
			{wait: 10 * time.Second, want: 10},
			{wait: time.Second, write: 100, want: 10},
			{wait: 10 * time.Second, want: 121},
		}},
		{"counts what a restart found as written then", &tape{head: 50, bytes: 1000, compacted: 40}, []step{
			{wait: 59 * time.Second, want: 40},
			{wait: 2 * time.Second, want: 50},
		}},
		{"forgets what a restart found where it is too much", &tape{head: 50, bytes: 1000, compacted: 40}, []step{
			{wait: time.Second, write: 11, want: 40},
			{wait: 10 * time.Second, want: 50},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tape := test.tape
				c := journal.StartCompactor(t.Context(), tape, policy, slog.Default())
				defer c.Close()
				synctest.Wait()
				for i, step := range test.steps {
					time.Sleep(step.wait)
					synctest.Wait()
					tape.write(step.write)
					if got := tape.Compacted(); got != step.want {
						t.Fatalf("step %d: compacted %d, want %d", i, got, step.want)
					}
				}
			})
		})
	}
}

func TestCompactorTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape := &tape{head: 7, fail: errors.New("disk is on fire")}
		c := journal.StartCompactor(t.Context(), tape, journal.Policy{}, slog.New(slog.DiscardHandler))
		defer c.Close()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		tape.mend()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := tape.Compacted(); got != 7 {
			t.Fatalf("compacted %d, want 7", got)
		}
	})
}
