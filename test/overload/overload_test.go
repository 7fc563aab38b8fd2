package overload

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/kapok-dev/kapok/test/yardstick"
)

var (
	overload = flag.Bool("overload", false, "attack a server and measure what a small user feels of it")
	long     = flag.Bool("long", false, "attack for a minute each, with more of everything")
	repeats  = flag.Int("repeats", 2, "how often a row that fails is run again before it counts as failed")
	binary   = flag.String("binary", "", "kapok binary to attack; default: one that is built from this module")
)

// ratio is the maximum growth of the victim's 99th percentile.
const ratio = 10

// An extent has the sizes of a run.
type extent struct {
	idle, attack time.Duration // durations of the measurements of the victim before and during the attack
	factor       int           // factor of the prepared quantities
}

func size() extent {
	if *long {
		return extent{idle: 10 * time.Second, attack: time.Minute, factor: 4}
	}
	return extent{idle: 2 * time.Second, attack: 5 * time.Second, factor: 1}
}

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		if err := beVictim(os.Getenv(victimVariable), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestOverload(t *testing.T) {
	if !*overload {
		t.Skip("it measures time: run it with -overload, on a machine that does nothing else")
	}
	kapok := *binary
	if kapok == "" {
		kapok = filepath.Join(t.TempDir(), "kapok")
		if out, err := exec.Command("go", "build", "-o", kapok, "../../cmd/kapok").CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	kapok, err := filepath.Abs(kapok)
	if err != nil {
		t.Fatal(err)
	}
	slowness := yardstick.Slowness(t)
	var all []*outcome
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			for try := range 1 + *repeats {
				o := &outcome{attack: a.name, slowness: slowness}
				all = append(all, o)
				o.run(t, kapok, a)
				t.Logf("%s", table(o))
				if len(o.failures) == 0 {
					return
				}
				t.Logf("try %d failed:\n\t%s", try+1, strings.Join(o.failures, "\n\t"))
			}
			t.Errorf("failed %d times", 1+*repeats)
		})
	}
	t.Logf("on %s/%s with %d cores:\n%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), table(all...))
}

// An outcome has the figures of one run of a row.
type outcome struct {
	attack       string
	slowness     float64 // of the machine
	idle, during sample
	before       condition
	after        condition
	peak         uint64 // maximum memory during the attack, in bytes
	answers      string // responses to the attackers
	failures     []string
}

func (o *outcome) failf(format string, args ...any) {
	o.failures = append(o.failures, fmt.Sprintf(format, args...))
}

// errDied means that the server has ended unexpectedly.
var errDied = errors.New("the server died")

// run starts a server, attacks it, and checks the row's conditions.
func (o *outcome) run(t *testing.T, kapok string, a attack) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), size().attack+3*time.Minute, errors.New("the row takes too long"))
	defer cancel()
	s := startServer(t, kapok)
	defer s.kill()
	// Requests to a server that has ended would wait forever.
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	defer context.AfterFunc(s.ctx, func() { died(errDied) })()

	b := &battle{t: t, server: s}
	if err := o.fight(ctx, b, a); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %v", cause, err)
		}
		o.failf("%v", err)
	}
	o.answers = b.answers.String()
	if s.ctx.Err() != nil {
		o.failf("%s", s.obituary())
		return
	}
	if err := s.stop(); err != nil {
		o.failf("stop: %v", err)
	}
}

// fight prepares, attacks, and waits until the server has recovered.
func (o *outcome) fight(ctx context.Context, b *battle, a attack) (err error) {
	if err := b.prepare(ctx, a); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	victim, err := b.startVictim(ctx)
	if err != nil {
		return fmt.Errorf("start the victim: %w", err)
	}
	defer victim.end()
	if o.before, err = b.server.rest(ctx); err != nil {
		return err
	}
	if o.idle, err = victim.measure("idle", size().idle); err != nil {
		return fmt.Errorf("victim before the attack: %w", err)
	}
	attacking, stop := context.WithCancel(ctx)
	var attackers sync.WaitGroup
	attackers.Go(func() { a.run(attacking, b) })
	attackers.Go(func() { o.peak = b.server.watchPeak(attacking) })
	o.during, err = victim.measure("attacked", size().attack)
	stop()
	attackers.Wait()
	if err != nil {
		return fmt.Errorf("victim during the attack: %w", err)
	}
	o.judge(time.Duration(o.slowness * float64(b.server.cage.floor())))
	if err := b.server.settle(ctx, o.before, a.keeps, &o.after); err != nil {
		o.failf("%v", err)
	}
	lost, err := b.lost(ctx, append(o.idle.Created, o.during.Created...))
	if err != nil {
		return fmt.Errorf("list at the end: %w", err)
	}
	if len(lost) > 0 {
		o.failf("%d acknowledged objects are lost, %s among them", len(lost), lost[0])
	}
	return nil
}

func (o *outcome) judge(floor time.Duration) {
	for _, s := range []*sample{&o.idle, &o.during} {
		if s.Refused > 0 {
			o.failf("the victim got 429 %d times", s.Refused)
		}
		if n := len(s.Errors); n > 0 {
			o.failf("the victim got %d errors: %s", n, s.Errors[0])
		}
	}
	for _, p := range []struct {
		what         string
		idle, during []time.Duration
	}{
		{"gets", o.idle.Gets, o.during.Gets},
		{"creates", o.idle.Creates, o.during.Creates},
	} {
		idle, during := percentile(p.idle, 99), percentile(p.during, 99)
		if limit := ratio * max(idle, floor); during > limit {
			o.failf("p99 of %s is %v, limit %v", p.what, short(during), short(limit))
		}
	}
}

// table formats outcomes, one a line.
func table(all ...*outcome) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "attack\tget p50, p99 idle\tattacked\tcreate p50, p99 idle\tattacked\t429\terrors\tMB idle\tpeak\tafter\tgoroutines idle\tafter\tresult\tattackers got")
	pair := func(d []time.Duration) string {
		return fmt.Sprintf("%v, %v", short(percentile(d, 50)), short(percentile(d, 99)))
	}
	for _, o := range all {
		result := "pass"
		if len(o.failures) > 0 {
			result = "FAIL"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", o.attack, pair(o.idle.Gets), pair(o.during.Gets),
			pair(o.idle.Creates), pair(o.during.Creates), o.during.Refused, len(o.during.Errors),
			o.before.memory>>20, o.peak>>20, o.after.memory>>20, o.before.goroutines, o.after.goroutines, result, o.answers)
	}
	w.Flush()
	return b.String()
}

// short rounds a duration for display.
func short(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
