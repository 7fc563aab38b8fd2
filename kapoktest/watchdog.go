package kapoktest

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// BlockedTimeout sets how long a bubble may be blocked by something outside of it, such as a
// socket, a process, or a mutex that is not released, in real time. Then the test fails, and the
// failure shows which goroutine waits on what. Default 5 seconds. A negative value disables the
// limit.
//
// A bubble is blocked while all its goroutines wait, at least one of them for something outside,
// and none wakes up. A bubble with a running goroutine is not blocked, even if it computes for
// minutes.
func BlockedTimeout(d time.Duration) Option { return func(o *options) { o.blocked = d } }

// defaultBlocked is the default of BlockedTimeout.
const defaultBlocked = 5 * time.Second

// A watchdog checks one bubble from outside of it. It inspects the bubble's goroutines every fifth
// of the limit, and more often once all of them are blocked. The bubble is stuck if enough
// inspections in a row find the same state.
type watchdog struct {
	seen  atomic.Pointer[watched] // nil until the bubble has identified itself
	away  atomic.Bool             // the bubble waits for its next body, and is not checked
	trace []byte

	last string // the goroutines as the last look has found them; "" if they were not blocked
	same int    // how many looks in a row have found them so
}

// watched identifies the bubble of a watchdog.
type watched struct {
	mark  string // in the header of each goroutine of the bubble
	limit time.Duration
}

const (
	looksPerLimit   = 5
	looksWhenStill  = 50
	looksUntilStuck = looksWhenStill - looksWhenStill/looksPerLimit
)

// guard runs synctest.Test in another goroutine, and ends as it does. If the bubble is stuck, guard
// returns the reason, and leaks the bubble, which cannot be ended from outside. The bubble must use
// the option, which registers it with the watchdog; ended is closed if the bubble ends later.
func guard(t *testing.T, run func(t *testing.T, w *watchdog)) (stuck string, ended <-chan struct{}) {
	t.Helper()
	w := &watchdog{}
	var end conclusion
	done := make(chan struct{})
	go func() {
		defer close(done)
		end.of(func() { synctest.Test(t, func(t *testing.T) { run(t, w) }) })
	}()
	timer := time.NewTimer(w.next())
	defer timer.Stop()
	for {
		select {
		case <-done:
			end.again()
			return "", done
		case <-timer.C:
			if stuck := w.look(); stuck != "" {
				return stuck, done
			}
			timer.Reset(w.next())
		}
	}
}

// option makes Start register its bubble with the watchdog.
func (w *watchdog) option(o *options) {
	header, _, _ := strings.Cut(stackOf(make([]byte, 128), false), "\n")
	_, bubble, found := strings.Cut(header, ", synctest bubble ")
	bubble, _, closed := strings.Cut(bubble, "]")
	if limit := o.blocked; found && closed && limit >= 0 {
		if limit == 0 {
			limit = defaultBlocked
		}
		w.seen.Store(&watched{mark: ", synctest bubble " + bubble + "]", limit: limit})
	}
}

// next returns the time until the next inspection.
func (w *watchdog) next() time.Duration {
	seen := w.seen.Load()
	switch {
	case seen == nil:
		return defaultBlocked / looksPerLimit
	case w.same > 0:
		return max(seen.limit/looksWhenStill, time.Millisecond)
	}
	return max(seen.limit/looksPerLimit, time.Millisecond)
}

// look inspects the bubble, and returns the reason if it is stuck.
func (w *watchdog) look() string {
	seen := w.seen.Load()
	if seen == nil || w.away.Load() {
		w.last, w.same = "", 0
		return ""
	}
	blocked := blockedIn(w.dump(), seen.mark)
	now := strings.Join(blocked.states, "\n")
	switch {
	case now == "" || w.away.Load():
		w.last, w.same = "", 0
		return ""
	case now != w.last:
		w.last, w.same = now, 1
		return ""
	}
	if w.same++; w.same <= looksUntilStuck {
		return ""
	}
	return blocked.report(seen.limit)
}

// dump returns the stacks of all goroutines, or "" if they are too long to inspect.
func (w *watchdog) dump() string {
	const longest = 64 << 20
	for size := max(len(w.trace), 256<<10); size <= longest; size *= 2 {
		if len(w.trace) < size {
			w.trace = make([]byte, size)
		}
		if text := stackOf(w.trace, true); len(text) < size {
			return text
		}
	}
	return ""
}

func stackOf(into []byte, all bool) string { return string(into[:runtime.Stack(into, all)]) }

// blocked has the goroutines that block a bubble.
type blocked struct {
	states  []string    // all goroutines of the bubble; none if the bubble is not blocked
	outside []goroutine // those that wait for something outside
}

// minutes matches the waiting time in the header of a goroutine.
var minutes = regexp.MustCompile(`, \d+ minutes`)

// blockedIn parses the stacks of all goroutines, the first of which is the caller's.
func blockedIn(dump, mark string) (b blocked) {
	others, listens := false, false
	for n, text := range strings.Split(strings.TrimSpace(dump), "\n\n") {
		header, _, _ := strings.Cut(text, "\n")
		g := goroutine{text: minutes.ReplaceAllString(text, ""), status: statusOf(header)}
		if !strings.HasSuffix(header, mark+":") {
			others = others || n > 0 && g.runs()
			continue
		}
		if g.runs() {
			return blocked{}
		}
		b.states = append(b.states, g.text)
		if !g.durable() {
			b.outside = append(b.outside, g)
			listens = listens || g.listens()
		}
	}
	// The bubble may wait for a running goroutine outside of it, but not for a client from outside,
	// which no test in a bubble has.
	if len(b.outside) == 0 || others && !listens {
		return blocked{}
	}
	slices.Sort(b.states) // the order of goroutines is arbitrary
	return b
}

// statusOf returns the status in the header of a goroutine.
func statusOf(header string) string {
	_, status, _ := strings.Cut(header, "[")
	status, _, _ = strings.Cut(status, "]")
	status, _, _ = strings.Cut(status, ",")
	return status
}

// A goroutine is a goroutine of a dump.
type goroutine struct{ text, status string }

// waits maps the states of goroutines that wait for something outside their bubble to what they
// wait for. All other states, such as work for the garbage collector, count as running.
var waits = map[string]string{
	"IO wait":             "a file or a socket",
	"syscall":             "the operating system",
	"chan receive":        "a channel created outside the bubble",
	"chan send":           "a channel created outside the bubble",
	"select":              "channels, one of which was created outside the bubble",
	"sync.WaitGroup.Wait": "a sync.WaitGroup that is used outside the bubble",
	"sync.Mutex.Lock":     "a mutex",
	"sync.RWMutex.Lock":   "a mutex",
	"sync.RWMutex.RLock":  "a mutex",
	"semacquire":          "a semaphore of the runtime",
	"finalizer wait":      "finalizers",
	"cleanup wait":        "cleanups",
	"sleep":               "the clock of the machine",
	"sync.Cond.Wait":      "a sync.Cond",
	"synctest.Run":        "a bubble",
}

// durable reports whether only the bubble can wake the goroutine.
func (g goroutine) durable() bool { return strings.HasSuffix(g.status, " (durable)") }

// runs reports whether the goroutine runs, or is about to.
func (g goroutine) runs() bool {
	if g.durable() {
		return false
	}
	switch {
	case g.status == "syscall" && strings.Contains(g.text, "\nruntime.cgocall("):
		return true // C code may compute
	case strings.Contains(g.text, "\nos.(*File).Write("):
		return true // the reader of a log may have paused
	}
	return waits[g.status] == ""
}

// listens reports whether the goroutine waits for connections.
func (g goroutine) listens() bool {
	return g.status == "IO wait" && strings.Contains(g.text, ").accept(")
}

// what names the thing that the goroutine waits for.
func (g goroutine) what() string {
	has := func(function string) bool { return strings.Contains(g.text, "\n"+function) }
	switch {
	case g.listens():
		return "connections to a socket"
	case g.status == "IO wait" && (has("net.(*conn).Read(") || has("net.(*netFD).Read(")):
		return "data from a socket"
	case g.status == "IO wait" && has("net."):
		return "a socket"
	case g.status == "IO wait" && has("os.(*File)."):
		return "a file or a pipe"
	case has("os.(*Process)."):
		return "the end of a process"
	case has("os/signal."):
		return "signals"
	}
	return waits[g.status]
}

// remedies are the advice for goroutines with a function in their stack.
var remedies = []struct{ function, remedy string }{
	{"sigs.k8s.io/controller-runtime/pkg/metrics/server.", `set Metrics.BindAddress of the manager's options to "0": its default is a socket at port 8080`},
	{"sigs.k8s.io/controller-runtime/pkg/manager.(*Server).", `set HealthProbeBindAddress and PprofBindAddress of the manager's options to "0"`},
	{"sigs.k8s.io/controller-runtime/pkg/webhook.", "set WebhookServer of the manager's options to webhook.NewServer(webhook.Options{Port: -1, WebhookMux: env.WebhookMux()}), and start with kapoktest.Webhooks"},
	{"sigs.k8s.io/controller-runtime/pkg/certwatcher.", "serve without certificate files: they are watched through the operating system"},
	{"github.com/kapok-dev/kapok/manager.", `set Metrics.BindAddress, HealthProbeBindAddress and PprofBindAddress of the manager's options to "0"`},
	{"github.com/kapok-dev/kapok/webhook.", "set Port of the webhook server's options to -1, its Mux to env.WebhookMux(), and start with kapoktest.Webhooks"},
	{"os/signal.", "start the manager with env.Go(mgr.Start), without ctrl.SetupSignalHandler and signal.NotifyContext"},
	{"github.com/fsnotify/fsnotify.", "do not watch files in a bubble"},
	{"os.(*Process).", "run processes before the bubble, or use kapoktest.Start, whose clock is that of the machine"},
	{"net/http.", "serve in memory, or use kapoktest.Start, whose clock is that of the machine"},
	{"net.", "use connections in memory, such as net.Pipe, or kapoktest.Start, whose clock is that of the machine"},
}

func (g goroutine) remedy() string {
	for _, r := range remedies {
		if strings.Contains(g.text, "\n"+r.function) {
			return r.remedy
		}
	}
	switch g.status {
	case "sync.Mutex.Lock", "sync.RWMutex.Lock", "sync.RWMutex.RLock":
		return "do not sleep or wait while holding a mutex that other goroutines lock: virtual time does not advance while a goroutine waits for a mutex"
	case "chan receive", "chan send", "select", "sync.WaitGroup.Wait":
		return "create it in the bubble, not in TestMain or a package variable"
	}
	return ""
}

// place returns where the goroutine waits: the innermost function outside the standard library, and
// its line.
func (g goroutine) place() string {
	lines := strings.Split(g.text, "\n")
	place := ""
	for n := 1; n+1 < len(lines) && !strings.HasPrefix(lines[n], "created by "); n += 2 {
		function := lines[n]
		if end := strings.LastIndex(function, "("); end > 0 {
			function = function[:end]
		}
		at, _, _ := strings.Cut(strings.TrimSpace(lines[n+1]), " ")
		place = function + " at " + at
		if first, _, _ := strings.Cut(function, "/"); strings.HasPrefix(function, "main.") || function != first && strings.Contains(first, ".") {
			break
		}
	}
	return place
}

// mostBlocked is the maximum number of goroutines in a report.
const mostBlocked = 5

// report describes the waits of a stuck bubble.
func (b blocked) report(limit time.Duration) string {
	var out, stacks bytes.Buffer
	fmt.Fprintf(&out, "the bubble is blocked: all its goroutines have been waiting for %v, and virtual time does not advance while one waits for something outside the bubble.\n", limit)
	for n, g := range b.outside {
		if n == mostBlocked {
			fmt.Fprintf(&out, "%d more goroutines wait for something outside.\n", len(b.outside)-n)
			break
		}
		name, _, _ := strings.Cut(g.text, " [")
		fmt.Fprintf(&out, "%s waits for %s in %s\n", name, g.what(), g.place())
		if remedy := g.remedy(); remedy != "" {
			fmt.Fprintf(&out, "    %s\n", remedy)
		}
		fmt.Fprintf(&stacks, "\n%s\n", g.text)
	}
	fmt.Fprintf(&out, "kapoktest.BlockedTimeout sets the limit. The goroutines of the bubble leak.\n%s", &stacks)
	return out.String()
}
