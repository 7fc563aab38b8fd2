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

// Bubble runs a test in a bubble of testing/synctest, with an Env of its own: its clock begins at midnight UTC, 2000-01-01, stands
// still as long as anybody in the bubble has something to do, and jumps to when the next one has when all wait. The server, its garbage
// collection, leases and deadlines follow it, and so does what the test starts.
//
// Who asks the server for the same all the time, so that time cannot pass, fails the test: 20,000 times for a change of an object, or 100,000 times
// for anything else, at one moment. All clients but the Env are refused from then on, and waits of the test end.
//
// What the test starts must end with it: with [Env.Context], as [Env.Go] has it end, or when the test says so.
func Bubble(t *testing.T, run func(t *testing.T, env *Env), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		run(t, Start(t, opts...))
	})
}

// Errors that nobody handles are followed, in k8s.io/apimachinery, by a sleep that lasts until a millisecond after the last such error
// of the process, on whichever clock that was: in a bubble, for decades. The sleep is taken out here, and not when the first
// bubble begins, because tests beside it may have errors to report at that moment.
func init() {
	if len(utilruntime.ErrorHandlers) == 2 {
		utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	}
}

// inBubble says whether the caller is in a bubble. Of all that says so only the trace of a goroutine neither panics nor waits.
func inBubble() bool {
	text := make([]byte, 128)
	state, _, _ := bytes.Cut(text[:runtime.Stack(text, false)], []byte("\n"))
	return bytes.Contains(state, []byte("synctest bubble"))
}

// quiet is how long nothing must happen until Settle takes it for the end: longer than what work queues wait before they try
// again for the first times, and than events are gathered.
const quiet = 10 * time.Second

// Settle lets time pass until no work is left: for ten seconds nobody has asked the server for anything, and nobody waits for an answer, but
// for what goes on all the time, leases and watches; no fault holds an event back any more, and after an outage clients have had the time to come
// back. It is for bubbles; the time that passes is theirs. What comes later than that is
// not waited for, such as a RequeueAfter of a minute: see [Env.SettleFor]. What goes on for ever ends the test after an hour, and so does,
// at once, what fails in [Env.Go].
func (e *Env) Settle() {
	e.t.Helper()
	e.SettleFor(quiet)
}

// SettleFor is Settle with another time for which nobody must ask the server for anything: longer than the pauses of the program
// under test that are part of its work, and shorter than those between one piece of work and the next. If there is always something,
// the test ends after an hour, or after ten such times if that is longer, or a hundred times the MaxDelay or the MaxOutage of [Faults].
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
			e.t.Fatalf("work does not end: %v", context.Cause(e.sound))
		}
		if now, busy := e.record.active(); busy || now != last || len(e.underWay()) > 0 {
			last, since = now, time.Now()
		}
		if time.Since(begin) > limit {
			e.t.Fatalf("work does not end: %s", e.unsettled(quiet))
		}
	}
}

// still waits until nobody in the bubble has anything to do, and ends the test if there is no bubble.
func (e *Env) still() {
	e.t.Helper()
	e.stilling <- struct{}{}
	defer func() {
		<-e.stilling
		if reason := recover(); reason != nil {
			e.t.Fatalf("Settle is for tests in a Bubble, and for when nobody else calls synctest.Wait: %v", reason)
		}
	}()
	synctest.Wait()
}

// unsettled says what keeps an Env from settling.
func (e *Env) unsettled(quiet time.Duration) string {
	if waiting := e.record.unanswered(); len(waiting) > 0 {
		return "there is no answer to\n" + lines(waiting)
	}
	if faults := e.underWay(); len(faults) > 0 {
		return "there is no end yet of\n  " + strings.Join(faults, "\n  ")
	}
	all := e.Requests()
	return fmt.Sprintf("in the last %v the server was asked for\n%s", quiet,
		lines(slices.DeleteFunc(all, func(r Request) bool { return time.Since(r.Time) > quiet })))
}

func lines(requests []Request) (text string) {
	for _, r := range requests {
		text += "  " + r.String() + "\n"
	}
	return text
}
