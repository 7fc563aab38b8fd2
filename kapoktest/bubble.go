package kapoktest

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Bubble runs a test in a bubble of testing/synctest, with an Env of its own: its clock begins at midnight UTC, 2000-01-01, stands
// still as long as anybody in the bubble has something to do, and jumps to when the next one has when all wait. The server, its garbage
// collection, leases and deadlines follow it, and so does what the test starts.
//
// What the test starts must end with it: with [Env.Context], as [Env.Go] has it end, or when the test says so.
func Bubble(t *testing.T, run func(t *testing.T, env *Env), opts ...Option) {
	t.Helper()
	calm()
	synctest.Test(t, func(t *testing.T) {
		run(t, Start(t, opts...))
	})
}

// calm takes out of k8s.io/apimachinery a sleep that follows each error that nobody handles: it lasts until a millisecond after
// the last error of the process, on whichever clock that was, and so, in a bubble, for decades.
var calm = sync.OnceFunc(func() {
	if len(utilruntime.ErrorHandlers) == 2 {
		utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	}
})

// quiet is how long nothing must happen until Settle takes it for the end: longer than what work queues wait before they try
// again for the first times, and than events are gathered.
const quiet = 10 * time.Second

// Settle lets time pass until no work is left: nobody has asked the server for anything in ten seconds, but for what is asked all the
// time, leases and watches. It is for bubbles; the time that passes is theirs. What waits for longer than that, as a CronJob does
// for its next run, is not waited for, and what goes on for ever ends the test after an hour.
func (e *Env) Settle() {
	e.t.Helper()
	const step = 100 * time.Millisecond
	begin := time.Now()
	last, since := e.record.active(), begin
	for time.Since(since) < quiet {
		time.Sleep(step)
		synctest.Wait()
		if now := e.record.active(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(begin) > time.Hour {
			e.t.Fatalf("work does not end: in the last second the server was asked for\n%s", e.lately(time.Second))
		}
	}
}

func (e *Env) lately(d time.Duration) (text string) {
	for _, r := range e.Requests() {
		if time.Since(r.Time) <= d {
			text += "  " + r.String() + "\n"
		}
	}
	return text
}
