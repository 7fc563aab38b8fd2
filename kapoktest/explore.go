package kapoktest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Explore runs a scenario with faults once for each seed from 1 to n, each time in a new bubble,
// until it fails with one of them. It then minimises the failure: it removes faults as long as the
// scenario still fails. The test fails with the remaining faults, in the order in which they
// happened, and the failures of the scenario.
//
// Faults begin once the first cache of a client has synced: see [FaultsBegin]. If no cache syncs
// with any of the seeds, the test fails.
//
// A scenario reports failures with the methods of its TB, and must be repeatable. Its log goes to
// the log of the test with the seed as prefix: "seed 3: ...". If it is skipped with each seed, the
// test is skipped.
//
// With KAPOKTEST_SEED=N in the environment, only that seed is run. With the option [Schedule], only
// the faults of an earlier failure are injected. [Bubble] with [WithFaults] runs a seed without
// removing faults. A seed reproduces its faults only as far as the clients send the same requests
// again: it does not reproduce randomness inside a client.
func Explore(t *testing.T, n int, faults Faults, scenario func(t testing.TB, env *Env), opts ...Option) {
	t.Helper()
	if n < 1 {
		t.Fatalf("explore: %d seeds: want one or more", n)
	}
	if err := faults.check(); err != nil {
		t.Fatalf("explore: %v", err)
	}
	switch result := explore(t, n, faults, scenario, opts); {
	case result.failed:
		t.Error(result.said)
	case result.skipped:
		t.Skip(result.said)
	}
}

// explore returns the outcome of Explore, with its message.
func explore(t *testing.T, n int, faults Faults, scenario func(testing.TB, *Env), opts []Option) outcome {
	t.Helper()
	if faults.Begin == 0 {
		faults.Begin = BeginSynced
	}
	first, last := uint64(1), uint64(n)
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return outcome{failed: true, said: fmt.Sprintf("%s=%s: want a number", seedVariable, text)}
		}
		first, last = seed, seed
	}
	x := exploration{t: t, faults: faults, scenario: scenario, opts: opts}
	allSkipped, begun := true, !faults.any()
	for seed := first; ; seed++ {
		result := x.attempt(seed, nil, true)
		switch {
		case result.unread != nil:
			return result
		case result.schedule != nil && result.failed:
			result.said = result.schedule.report(result)
			return result
		case result.schedule != nil:
			return result
		case result.failed:
			result.said = x.shrink(seed, result)
			return result
		}
		allSkipped, begun = allSkipped && result.skipped, begun || result.begun
		switch {
		case seed != last:
		case allSkipped:
			return result
		case !begun:
			return outcome{failed: true, said: neverBegun}
		default:
			return outcome{}
		}
	}
}

// neverBegun is the failure of an Explore without any fault.
const neverBegun = "explore: faults began with no seed, because no client has established a watch or written an object: " +
	"set Faults.Begin to BeginAtOnce, or to BeginManually and call Env.BeginFaults"

// seedVariable is the variable in the environment that names the only seed to try.
const seedVariable = "KAPOKTEST_SEED"

// An exploration is one call of Explore.
type exploration struct {
	t        *testing.T
	faults   Faults
	scenario func(testing.TB, *Env)
	opts     []Option
}

// An outcome is how a scenario ended.
type outcome struct {
	failed   bool
	skipped  bool // and did not fail
	said     string
	met      []Fault
	begun    bool      // faults had begun
	schedule *schedule // of the option, or nil
	unread   error     // the error of reading the schedule of the option
}

// attempt runs a scenario once, with the given faults, or with all faults of the seed if they are
// nil.
func (x *exploration) attempt(seed uint64, only []Fault, logs bool) (result outcome) {
	x.t.Helper()
	ended := false
	defer func() {
		if !ended { // a bubble that does not end is a panic
			x.t.Logf("the seed was %d", seed)
		}
	}()
	stuck, _ := guard(x.t, func(t *testing.T, w *watchdog) {
		witness := newWitness(t)
		if logs {
			witness.logSeed(seed)
		}
		var env *Env
		witness.run(func() {
			env = Start(witness, append(slices.Clip(x.opts), w.option, WithFaults(seed, x.faults), func(o *options) {
				if result.schedule, result.unread = o.schedule, o.scheduleErr; o.schedule != nil && logs {
					witness.logSeed(o.schedule.seed)
				}
				o.faults.limit(only)
			})...)
			x.scenario(witness, env)
		})
		witness.end()
		result.failed, result.skipped = witness.failed, witness.skipped && !witness.failed
		result.said = strings.TrimSpace(witness.said.String())
		if env != nil {
			result.met, result.begun = env.Faults(), env.faults.begins.Load()
		}
	})
	if stuck != "" {
		x.t.Fatal(stuck)
	}
	ended = true
	return result
}

// limit restricts the injected faults to the given ones, unless they are nil.
func (i *injector) limit(only []Fault) {
	if only == nil {
		return
	}
	i.only = map[Fault]bool{}
	for _, f := range only {
		i.only[f] = true
	}
}

// shrink finds a small set of faults that is enough: it removes halves, quarters and so on of the
// rest (delta debugging).
func (x *exploration) shrink(seed uint64, failed outcome) string {
	x.t.Helper()
	least := failed
	for parts := 2; len(least.met) > 0; {
		size := (len(least.met) + parts - 1) / parts
		smaller := false
		for from := 0; from < len(least.met); from += size {
			rest := append([]Fault{}, least.met[:from]...)
			rest = append(rest, least.met[min(from+size, len(least.met)):]...)
			if next := x.attempt(seed, rest, false); next.failed && len(next.met) < len(least.met) {
				least, smaller = next, true
				break
			}
		}
		switch {
		case smaller:
			parts = max(parts-1, 2)
		case size == 1:
			return report(seed, len(failed.met), least)
		default:
			parts = min(parts*2, len(least.met))
		}
	}
	return report(seed, len(failed.met), least)
}

// report returns the faults that make a scenario fail, of a total number. It begins with the text
// for Schedule.
func report(seed uint64, of int, least outcome) string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d (%s=%d runs it alone): ", seed, seedVariable, seed)
	if len(least.met) == 0 {
		return out.String() + "the scenario fails without any fault:\n" + least.said
	}
	verb := "are"
	if len(least.met) == 1 {
		verb = "is"
	}
	fmt.Fprintf(&out, "%d of the %d faults %s enough:\n", len(least.met), of, verb)
	for _, f := range least.met {
		fmt.Fprintf(&out, "  %v\n", f)
	}
	out.WriteString(least.said)
	return out.String()
}

// witness is the TB of a scenario. It records failures instead of failing the test.
type witness struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	prefix string // of what goes to the log of the test; "" if nothing does

	mu       sync.Mutex
	ended    bool // the log of the bubble's TB is not to be used any more
	failed   bool
	skipped  bool
	said     strings.Builder
	cleanups []func()
}

func newWitness(t *testing.T) *witness {
	w := &witness{TB: t}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	return w
}

// logSeed copies the log of the scenario to the log of the test.
func (w *witness) logSeed(seed uint64) { w.prefix = fmt.Sprintf("seed %d: ", seed) }

func (w *witness) say(fails bool, text string) {
	w.TB.Helper()
	text = strings.TrimSuffix(text, "\n")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = w.failed || fails
	w.said.WriteString(text + "\n")
	if w.prefix != "" && !w.ended && text != "" {
		w.TB.Log(w.prefix + text)
	}
}

// run runs a function in a new goroutine, which the function may end, and records a panic as a
// failure.
func (w *witness) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if reason := recover(); reason != nil {
				w.say(true, fmt.Sprintf("panic: %v", reason))
			}
		}()
		f()
	}()
	<-done
}

// end runs the cleanups of the test.
func (w *witness) end() {
	w.cancel()
	for {
		w.mu.Lock()
		n := len(w.cleanups)
		if n == 0 {
			w.ended = true
			w.mu.Unlock()
			return
		}
		last := w.cleanups[n-1]
		w.cleanups = w.cleanups[:n-1]
		w.mu.Unlock()
		w.run(last)
	}
}

func (w *witness) Helper()                  {}
func (w *witness) Context() context.Context { return w.ctx }
func (w *witness) Fail()                    { w.say(true, "") }

func (w *witness) Log(args ...any) {
	w.TB.Helper()
	w.say(false, fmt.Sprintln(args...))
}

func (w *witness) Logf(format string, args ...any) {
	w.TB.Helper()
	w.say(false, fmt.Sprintf(format, args...))
}

func (w *witness) Error(args ...any) {
	w.TB.Helper()
	w.say(true, fmt.Sprintln(args...))
}

func (w *witness) Errorf(format string, args ...any) {
	w.TB.Helper()
	w.say(true, fmt.Sprintf(format, args...))
}

func (w *witness) FailNow() {
	w.Fail()
	runtime.Goexit()
}

func (w *witness) Fatal(args ...any) {
	w.TB.Helper()
	w.Error(args...)
	runtime.Goexit()
}

func (w *witness) Fatalf(format string, args ...any) {
	w.TB.Helper()
	w.Errorf(format, args...)
	runtime.Goexit()
}

func (w *witness) SkipNow() {
	w.mu.Lock()
	w.skipped = true
	w.mu.Unlock()
	runtime.Goexit()
}

func (w *witness) Skip(args ...any) {
	w.TB.Helper()
	w.Log(args...)
	w.SkipNow()
}

func (w *witness) Skipf(format string, args ...any) {
	w.TB.Helper()
	w.Logf(format, args...)
	w.SkipNow()
}

func (w *witness) Skipped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skipped
}

func (w *witness) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *witness) Cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}
