package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
)

// A run is one call of Run. It takes one measure at a time; its fields are not safe for concurrent
// use, except for the counters.
type run struct {
	Options
	load      Load
	dialler   *dialler
	shared    *client // used by all workers without a connection of their own
	processes processes

	id, namespace string
	kind          kind
	objects       string // path of the objects
	made          struct{ namespace, definitions bool }
	created       atomic.Int64 // number of objects beyond the first ones
	changes       atomic.Int64 // number of changes, which become replicas, so that each update changes the object

	progress Progress
	result   *Report
}

// Run takes the measures and returns the report. The error of a measure is in the report, and the
// next measure is taken. If Run itself returns an error, the report has the measures taken before.
// The error is or wraps a LeftError if some objects could not be removed. Run returns when all of
// its goroutines have ended.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return start(ctx, o, newLoad(&o))
}

func start(ctx context.Context, o Options, l Load) (_ *Report, err error) {
	r := &run{Options: o, load: l, processes: o.Processes, id: rand.String(5)}
	r.namespace, r.kind = "kapok-bench-"+r.id, newKind(r.id)
	r.objects = r.kind.path(r.namespace)
	if r.dialler, err = newDialler(o.Config); err != nil {
		return nil, err
	}
	if r.shared, err = r.dialler.client(); err != nil {
		return nil, err
	}
	defer r.shared.close()
	r.result = &Report{
		Version: Version,
		Time:    time.Now(),
		Server:  Server{Address: r.dialler.host},
		Machine: Machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), loadAverage()},
		Load:    r.load,

		Measures: []Measure{}, // encodes as a list even if it is empty
	}
	if err := r.identify(ctx); err != nil {
		return r.result, err
	}
	return r.result, r.all(ctx)
}

// A step is a part of a run.
type step struct {
	title string
	do    func(context.Context) error
}

// all runs the steps, and removes what they installed. It ends early if the context does, or if a
// step fails that others depend on.
func (r *run) all(ctx context.Context) (err error) {
	steps := r.steps()
	r.progress.Steps = len(steps) + 1
	defer func() {
		r.begin("remove what was made")
		err = errors.Join(err, r.remove(ctx))
	}()
	for _, s := range steps {
		r.begin(s.title)
		if err := s.do(ctx); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// steps returns the steps of a run in order. Those that add objects come after those that read
// them.
func (r *run) steps() []step {
	var syncs durations
	fsync := step{"sync the disk", func(context.Context) error {
		more, err := fsyncs(r.FsyncDir, 200)
		if err != nil {
			return fmt.Errorf("--fsync-dir: %w", err)
		}
		syncs = append(syncs, more...)
		r.result.inFsyncs(syncs.quantile(0.5))
		return nil
	}}
	var steps []step
	if r.FsyncDir != "" {
		steps = append(steps, fsync)
	}
	if r.chosen("memory") {
		steps = append(steps, step{"memory", func(context.Context) error { return r.memory("idle", "before the load") }})
	}
	steps = append(steps, step{"install", r.install})
	filled := false
	for _, p := range r.plan() {
		if !r.chosen(p.measure) {
			continue
		}
		if p.reads && !filled {
			steps = append(steps, r.fill()...)
			filled = true
		}
		steps = append(steps, step{p.title, func(ctx context.Context) error { r.take(ctx, p); return nil }})
	}
	if r.FsyncDir != "" {
		steps = append(steps, fsync)
	}
	return steps
}

// take takes a measure, and adds the result to the report.
func (r *run) take(ctx context.Context, p planned) {
	waited := r.dialler.waited.Load()
	found, err := p.take(ctx)
	if ctx.Err() != nil {
		return // the run is cancelled
	}
	if err != nil {
		found = []Measure{{Name: p.name, Title: p.title, Error: err.Error()}}
	}
	if len(found) > 0 {
		found[0].Waited = r.dialler.waited.Load() - waited
	}
	r.result.Measures = append(r.result.Measures, found...)
}

// begin reports the begin of a step.
func (r *run) begin(title string) {
	r.progress.Step++
	r.progress.Title = title
	r.advance(0)
}

// advance reports the progress of a step.
func (r *run) advance(done float64) {
	if r.Progress != nil {
		r.progress.Done = done
		r.Progress(r.progress)
	}
}

func (r *run) note(format string, args ...any) {
	r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
}
