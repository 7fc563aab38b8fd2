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
	"testing/synctest"
)

// Explore runs a scenario in a bubble of its own for each of n seeds, from 1 on, with faults, and looks for one that it does not stand. Such a
// failure it makes small: it takes away faults, as long as what is left makes the scenario fail. The test fails then, and says what is
// left, in which order it happened, and what the scenario said.
//
// A scenario says that something is wrong with the methods of its TB, and must be able to run many times. If each seed skips it, the test is
// skipped.
//
// With KAPOKTEST_SEED=N in the environment only that seed is run. [Bubble] with [WithFaults] runs one, too, and takes no faults away. A seed
// brings the same faults again as far as clients ask for the same again: what chance decides in them is not repeated.
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

// explore returns how Explore is to end, and what it has to say then.
func explore(t *testing.T, n int, faults Faults, scenario func(testing.TB, *Env), opts []Option) outcome {
	t.Helper()
	first, last := uint64(1), uint64(n)
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return outcome{failed: true, said: fmt.Sprintf("%s=%s: want a number", seedVariable, text)}
		}
		first, last = seed, seed
	}
	allSkipped := true
	for seed := first; ; seed++ {
		result := attempt(t, seed, faults, nil, scenario, opts)
		if result.failed {
			result.said = fmt.Sprintf("seed %d (%s=%d runs it alone): %s", seed, seedVariable, seed, shrink(t, seed, faults, result, scenario, opts))
			return result
		}
		allSkipped = allSkipped && result.skipped
		switch {
		case seed != last:
		case allSkipped:
			return result
		default:
			return outcome{}
		}
	}
}

// seedVariable is the variable in the environment that names the only seed to try.
const seedVariable = "KAPOKTEST_SEED"

// An outcome is how a scenario ended.
type outcome struct {
	failed  bool
	skipped bool // and did not fail
	said    string
	met     []Fault
}

// attempt runs a scenario once, with those faults only, or, if they are nil, with all that the seed brings.
func attempt(t *testing.T, seed uint64, faults Faults, only []Fault, scenario func(testing.TB, *Env), opts []Option) (result outcome) {
	ended := false
	defer func() {
		if !ended { // a bubble that does not end is a panic
			t.Logf("it was with seed %d", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		witness := &witness{TB: t}
		witness.ctx, witness.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
		var env *Env
		witness.run(func() {
			env = Start(witness, append(slices.Clip(opts), WithFaults(seed, faults), func(o *options) { o.faults.limit(only) })...)
			scenario(witness, env)
		})
		witness.end()
		result = outcome{failed: witness.failed, skipped: witness.skipped && !witness.failed, said: strings.TrimSpace(witness.said.String())}
		if env != nil {
			result.met = env.Faults()
		}
	})
	ended = true
	return result
}

// limit lets happen nothing but what is said, unless that is nil.
func (i *injector) limit(only []Fault) {
	if only == nil {
		return
	}
	i.only = map[Fault]bool{}
	for _, f := range only {
		i.only[f] = true
	}
}

// shrink finds few faults that are enough, by taking away halves, quarters and so on of what is left (delta debugging).
func shrink(t *testing.T, seed uint64, faults Faults, failed outcome, scenario func(testing.TB, *Env), opts []Option) string {
	t.Helper()
	least := failed
	for parts := 2; len(least.met) > 0; {
		size := (len(least.met) + parts - 1) / parts
		smaller := false
		for from := 0; from < len(least.met); from += size {
			rest := append([]Fault{}, least.met[:from]...)
			rest = append(rest, least.met[min(from+size, len(least.met)):]...)
			if next := attempt(t, seed, faults, rest, scenario, opts); next.failed && len(next.met) < len(least.met) {
				least, smaller = next, true
				break
			}
		}
		switch {
		case smaller:
			parts = max(parts-1, 2)
		case size == 1:
			return report(failed, least)
		default:
			parts = min(parts*2, len(least.met))
		}
	}
	return report(failed, least)
}

func report(failed, least outcome) string {
	if len(least.met) == 0 {
		return "the scenario fails without any fault:\n" + least.said
	}
	var out strings.Builder
	verb := "are"
	if len(least.met) == 1 {
		verb = "is"
	}
	fmt.Fprintf(&out, "%d of the %d faults %s enough:\n", len(least.met), len(failed.met), verb)
	for _, f := range least.met {
		fmt.Fprintf(&out, "  %v\n", f)
	}
	out.WriteString(least.said)
	return out.String()
}

// witness is the TB of a scenario: it hears of failures, and keeps them from the test.
type witness struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failed   bool
	skipped  bool
	said     strings.Builder
	cleanups []func()
}

func (w *witness) say(fails bool, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = w.failed || fails
	w.said.WriteString(strings.TrimSuffix(text, "\n") + "\n")
}

// run runs something in a goroutine of its own, which that may end, and takes a panic for a failure.
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

// end does what a test does at its end.
func (w *witness) end() {
	w.cancel()
	for {
		w.mu.Lock()
		n := len(w.cleanups)
		if n == 0 {
			w.mu.Unlock()
			return
		}
		last := w.cleanups[n-1]
		w.cleanups = w.cleanups[:n-1]
		w.mu.Unlock()
		w.run(last)
	}
}

func (w *witness) Helper()                           {}
func (w *witness) Context() context.Context          { return w.ctx }
func (w *witness) Log(args ...any)                   { w.say(false, fmt.Sprintln(args...)) }
func (w *witness) Logf(format string, args ...any)   { w.say(false, fmt.Sprintf(format, args...)) }
func (w *witness) Error(args ...any)                 { w.say(true, fmt.Sprintln(args...)) }
func (w *witness) Errorf(format string, args ...any) { w.say(true, fmt.Sprintf(format, args...)) }
func (w *witness) Fail()                             { w.say(true, "") }

func (w *witness) FailNow() {
	w.Fail()
	runtime.Goexit()
}

func (w *witness) Fatal(args ...any) {
	w.Error(args...)
	runtime.Goexit()
}

func (w *witness) Fatalf(format string, args ...any) {
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
	w.Log(args...)
	w.SkipNow()
}

func (w *witness) Skipf(format string, args ...any) {
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
