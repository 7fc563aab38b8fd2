package kapoktest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Bubble runs a test in a bubble of testing/synctest, with an Env of its own. The clock starts at
// midnight UTC, 2000-01-01. It stands still while any goroutine of the bubble runs; when all of
// them wait, it advances to the next timer. The server, its garbage collection, leases and
// deadlines follow this clock, and so does everything that the test starts.
//
// A busy loop of requests prevents time from advancing, so it fails the test. The limit is 20,000
// identical requests that change an object, or 100,000 other requests, at the same virtual time.
// From then on the server rejects all requests except the Env's own, and pending waits of the test
// fail.
//
// A bubble that is blocked by something outside, such as a socket or a process, fails the test
// after 5 seconds of real time. The failure shows which goroutine waits and on what: see
// [BlockedTimeout].
//
// Everything that the test starts must have stopped when the test ends. Functions passed to
// [Env.Go] stop when [Env.Context] ends; stop everything else explicitly.
func Bubble(t *testing.T, run func(t *testing.T, env *Env), opts ...Option) {
	t.Helper()
	bubble(t, func(t *testing.T, env *Env, _ *watchdog) { run(t, env) }, opts)
}

func bubble(t *testing.T, run func(*testing.T, *Env, *watchdog), opts []Option) {
	t.Helper()
	stuck, _ := guard(t, func(t *testing.T, w *watchdog) {
		run(t, Start(t, append(slices.Clip(opts), w.option)...), w)
	})
	if stuck != "" {
		t.Fatal(stuck)
	}
}

// k8s.io/apimachinery follows an unhandled error by a sleep until one millisecond after the last
// such error of the process, on whichever clock that was measured: in a bubble, for decades. The
// sleep is removed here, and not when the first bubble starts, because parallel tests may report
// errors at that moment.
func init() {
	if len(utilruntime.ErrorHandlers) == 2 {
		utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	}
}

// inBubble reports whether the caller is in a bubble. Of all ways to find out, only the trace of a
// goroutine neither panics nor waits.
func inBubble() bool {
	text := make([]byte, 128)
	state, _, _ := bytes.Cut(text[:runtime.Stack(text, false)], []byte("\n"))
	return bytes.Contains(state, []byte("synctest bubble"))
}

// quiet is the time without requests after which Settle returns: longer than the first retries of
// work queues, and than the aggregation of events.
const quiet = 10 * time.Second

// Settle advances the clock of a bubble until no work is left. No work is left when no client has
// sent a request or waited for a response for ten seconds (leases, watches and requests that repeat
// periodically do not count), when no fault delays an event, and when clients have had time to
// reconnect after an outage. Settle does not wait for later work, such as a RequeueAfter of a
// minute: see [Env.SettleFor]. Work that never ends fails the test after one hour, and an error in
// [Env.Go] fails it immediately.
func (e *Env) Settle() {
	e.t.Helper()
	e.SettleFor(quiet)
}

// SettleFor is like Settle, with an idle time of quiet instead of ten seconds. Choose a time that
// is longer than the pauses within one piece of work of the program under test, and shorter than
// the pauses between two. If requests never cease, the test fails after the longest of one hour,
// ten times the idle time, and a hundred times MaxDelay or MaxOutage of the [Faults].
func (e *Env) SettleFor(quiet time.Duration) {
	e.t.Helper()
	step, limit := max(100*time.Millisecond, quiet/100), max(time.Hour, 10*quiet)
	if e.faults != nil {
		limit = max(limit, 100*e.faults.faults.MaxDelay, 100*e.faults.faults.MaxOutage)
	}
	e.still()
	begin := time.Now()
	last, _ := e.record.active()
	for since := begin; time.Since(since) < quiet; {
		time.Sleep(step)
		e.still()
		if e.sound.Err() != nil {
			e.t.Fatalf("the server does not become idle: %v", context.Cause(e.sound))
		}
		if now, busy := e.record.active(); busy || now != last || len(e.underWay()) > 0 {
			last, since = now, time.Now()
		}
		if time.Since(begin) > limit {
			e.t.Fatalf("the server does not become idle: %s", e.unsettled(quiet))
		}
	}
}

// still waits until all goroutines of the bubble wait. It ends the test if there is no bubble.
func (e *Env) still() {
	e.t.Helper()
	e.stilling <- struct{}{}
	defer func() {
		<-e.stilling
		if reason := recover(); reason != nil {
			e.t.Fatalf("Settle must be called in a Bubble, and not concurrently with synctest.Wait: %v", reason)
		}
	}()
	synctest.Wait()
}

// unsettled lists the requests or faults because of which an Env has not settled.
func (e *Env) unsettled(quiet time.Duration) string {
	if waiting := e.record.unanswered(); len(waiting) > 0 {
		return "requests without a response:\n" + lines(waiting)
	}
	if faults := e.underWay(); len(faults) > 0 {
		return "faults in progress:\n  " + strings.Join(faults, "\n  ")
	}
	all := e.Requests()
	return fmt.Sprintf("requests of the last %v:\n%s", quiet,
		lines(slices.DeleteFunc(all, func(r Request) bool { return time.Since(r.Time) > quiet })))
}

func lines(requests []Request) (text string) {
	for _, r := range requests {
		text += "  " + r.String() + "\n"
	}
	return text
}
