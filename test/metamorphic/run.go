package metamorphic

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"
)

// weights are the relative frequencies of operations.
var weights = []struct {
	verb   verb
	weight int
}{
	{create, 14}, {update, 10}, {merge, 10}, {jsonPatch, 4}, {status, 4}, {remove, 8}, {collection, 2},
	{get, 3}, {list, 8}, {page, 14}, {watch, 10}, {watchList, 3},
	{compact, 2}, {reopen, 3}, {crash, 3}, {examine, 1}, {restore, 1},
}

// operations returns n random operations.
func operations(seed uint64, n int) (all []operation) {
	r := rand.New(rand.NewPCG(seed, 0))
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	for range n {
		at := r.IntN(total)
		for _, w := range weights {
			if at -= w.weight; at < 0 {
				all = append(all, operation{w.verb, r.Uint64()})
				break
			}
		}
	}
	return all
}

// A failure is an answer that differs from the model's, or between servers.
type failure struct {
	configuration Configuration
	options       string // the random options of its server
	at            int
	step          *step
	got           string
	want          string
	others        []string // the configurations that agree with the model
	model         bool     // it differs from the model
}

// A run is one sequence of operations on several configurations.
type run struct {
	operations     []operation
	configurations []Configuration
	seed           uint64
}

// steps makes the steps of the operations, with the versions of the model before each.
func (r *run) steps() (all []*step, heads []int) { return newModel().steps(r.operations) }

func (m *model) steps(operations []operation) (all []*step, heads []int) {
	for _, op := range operations {
		heads = append(heads, m.head())
		all = append(all, m.next(op))
	}
	return all, heads
}

// do runs the operations on all configurations, and returns the first failure.
func (r *run) do(ctx context.Context, dir string) (*failure, error) {
	steps, heads := r.steps()
	var (
		group    sync.WaitGroup
		failures = make([]*failure, len(r.configurations))
		details  = make([][]string, len(r.configurations))
		errs     = make([]error, len(r.configurations))
	)
	for i, c := range r.configurations {
		group.Go(func() {
			own, err := os.MkdirTemp(dir, "")
			if err != nil {
				errs[i] = err
				return
			}
			defer os.RemoveAll(own)
			s := newServer(c, own, r.seed)
			failures[i], details[i], errs[i] = s.all(ctx, steps, heads)
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.configurations[i].Name, err)
		}
	}
	var first *failure
	for _, f := range failures {
		if f != nil && (first == nil || f.at < first.at) {
			first = f
		}
	}
	if first != nil {
		for i, c := range r.configurations {
			if failures[i] == nil || failures[i].at > first.at {
				first.others = append(first.others, c.Name)
			}
		}
		return first, nil
	}
	return r.compare(steps, details), nil
}

// compare finds details in which servers differ.
func (r *run) compare(steps []*step, details [][]string) *failure {
	for at, s := range steps {
		for i := range r.configurations {
			if one, other := details[0][at], details[i][at]; one != other && one != "" && other != "" {
				return &failure{configuration: r.configurations[i], at: at, step: s, got: other, want: one, others: []string{r.configurations[0].Name}}
			}
		}
	}
	return nil
}

// all runs the steps up to the first wrong answer.
func (s *server) all(ctx context.Context, steps []*step, heads []int) (f *failure, details []string, err error) {
	if err := s.start(ctx); err != nil {
		return nil, nil, err
	}
	defer s.stop()
	if err := s.found(ctx); err != nil {
		return nil, nil, err
	}
	return s.takeAll(ctx, steps, heads)
}

// takeAll runs the steps with the running server, and stops it at the end.
func (s *server) takeAll(ctx context.Context, steps []*step, heads []int) (f *failure, details []string, err error) {
	for at, step := range steps {
		got, detail, err := s.take(ctx, step, heads[at])
		if s.excused(step, got) {
			detail = ""
		} else if err != nil || got.String() != step.want.String() {
			text := got.String()
			if err != nil {
				text += "\n        " + err.Error()
			}
			return &failure{configuration: s.Configuration, options: s.describe(), at: at, step: step, got: text, want: step.want.String(), model: true}, details, nil
		}
		details = append(details, detail)
	}
	return nil, details, s.stop()
}

// excused reports whether an answer differs from the model's in an allowed way, because history is
// gone.
func (s *server) excused(step *step, got answer) bool {
	switch {
	case step.verb == page && !step.first && s.lost[step.slot]:
		return true
	case got.reason == expired && step.want.reason != expired && step.past >= 0 && (s.Forgetful || s.gone[step.past]):
		if step.verb == page {
			s.lost[step.slot] = true
		}
		return true
	case step.verb == page:
		delete(s.lost, step.slot)
	}
	return false
}

func (f *failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) answers\n        %s\n    ", f.configuration.Name, f.options, f.got)
	if f.model {
		fmt.Fprintf(&b, "and not, as the model")
		for _, name := range f.others {
			fmt.Fprintf(&b, " and %s", name)
		}
	} else {
		fmt.Fprintf(&b, "and not, as %s", f.others[0])
	}
	fmt.Fprintf(&b, "\n        %s", f.want)
	return b.String()
}

// shrink removes operations as long as the run still fails, and returns the shortest failure. It
// makes the given number of runs at most.
func (r *run) shrink(ctx context.Context, dir string, f *failure, runs int) (*run, *failure) {
	best := &run{slices.Clone(r.operations[:f.at+1]), r.configurations, r.seed}
	if f.model {
		best.configurations = []Configuration{f.configuration}
	}
	for size := len(best.operations) / 2; size > 0; {
		cut := false
		for from := 0; from+size < len(best.operations) && runs > 0; { // the last operation is the one that fails
			runs--
			less := *best
			less.operations = slices.Delete(slices.Clone(best.operations), from, from+size)
			if again, err := less.do(ctx, dir); err == nil && again != nil {
				less.operations = less.operations[:again.at+1]
				again.others = f.others
				best, f, cut = &less, again, true
				continue
			}
			from += size
		}
		if runs == 0 {
			break
		}
		if !cut || size > 1 {
			size /= 2
		}
	}
	return best, f
}

// A Config configures a test. Configurations are required.
type Config struct {
	// Seed determines the operations and the options of the servers. Default: that of the test.
	Seed uint64
	// Runs is the number of sequences, whose seeds are consecutive. Default: 1.
	Runs int
	// Operations is the length of a sequence. Default: 100.
	Operations int
	// Configurations are compared with each other and with the model. At least one is required.
	Configurations []Configuration
}

// Run runs sequences until one fails, and reports the shortest failure that it finds.
func Run(t testing.TB, c Config) {
	t.Helper()
	if c.Seed == 0 {
		c.Seed = seeds.Of(t)
	}
	for i := range uint64(max(c.Runs, 1)) {
		r := &run{operations(c.Seed+i, cmp.Or(c.Operations, 100)), c.Configurations, c.Seed + i}
		if report := r.report(t.Context(), t.TempDir()); report != "" {
			t.Fatal(report)
		}
	}
}

// report runs the operations; it returns "" if all answers are correct.
func (r *run) report(ctx context.Context, dir string) string {
	f, err := r.do(ctx, dir)
	switch {
	case err != nil:
		return fmt.Sprintf("KAPOK_SEED=%d: %v", r.seed, err)
	case f == nil:
		return ""
	}
	shortest, f := r.shrink(ctx, dir, f, 60)
	var b strings.Builder
	fmt.Fprintf(&b, "KAPOK_SEED=%d, shortened from %d operations to %d:\n", r.seed, len(r.operations), len(shortest.operations))
	steps, _ := shortest.steps()
	for i, s := range steps {
		fmt.Fprintf(&b, "    %d. %s\n", i+1, s)
	}
	fmt.Fprintf(&b, "    %s", f)
	return b.String()
}
