package bench

import (
	"context"
	"fmt"
)

// A planned measure is one that can be taken.
type planned struct {
	measure     string // as in Options.Measures
	name, title string
	reads       bool // needs existing objects
	take        func(context.Context) ([]Measure, error)
}

// plan returns all measures, in the order in which they are taken.
func (r *run) plan() []planned {
	l := &r.load
	timed := amount{time: l.duration}
	plan := []planned{
		r.closed("connect", "connect", "connect", 1, amount{operations: l.Connections}, r.connect),
		{"memory", "memory", fmt.Sprintf("memory, quiet for %v", l.quiet), true, r.memoryOfLoad},
		r.closed("get", "get-16", "get, 16 workers", 16, timed, r.get),
		r.closed("patch", "patch-16", "merge patch, 16 workers", 16, timed, r.patch),
		r.closed("apply", "apply-16", "apply, 16 workers", 16, timed, r.apply),
		r.closed("list", "list", fmt.Sprintf("list %d", l.Objects), 1, timed, r.list("", "")),
		r.closed("list", "list-gzip", fmt.Sprintf("list %d, compressed", l.Objects), 1, timed, r.list("", "gzip")),
		r.closed("label", "label", fmt.Sprintf("list %d of %d by label", l.Labelled, l.Objects), 1, timed, r.list("?labelSelector=shade%3Dblue-7", "")),
		{"watch", "watch", fmt.Sprintf("watch, %d watchers, %d changes/s", l.Watchers, l.ChangesPerSecond), true, r.watch},
	}
	for _, workers := range []int{1, 16, 256} {
		title := fmt.Sprintf("create, %d workers", workers)
		if workers == 1 {
			title = "create, 1 worker"
		}
		plan = append(plan, r.closed("create", fmt.Sprintf("create-%d", workers), title, workers, timed, r.create))
	}
	return append(plan, planned{"crds", "crds", fmt.Sprintf("%d definitions, until served", l.Definitions), false, r.definitions})
}

// closed returns a measure in which each worker repeats an operation as soon as it has the
// response.
func (r *run) closed(measure, name, title string, workers int, a amount, op operation) planned {
	reads := measure != "connect" && measure != "create"
	writes := measure == "create" || measure == "patch" || measure == "apply"
	return planned{measure, name, title, reads, func(ctx context.Context) ([]Measure, error) {
		m, err := r.measure(ctx, workers, a, op)
		m.Name, m.Title, m.writes = name, title, writes
		return []Measure{m}, err
	}}
}

// fill returns the steps that create the objects that are read and changed. All objects have the
// same history.
func (r *run) fill() []step {
	var steps []step
	for _, s := range []struct {
		verb string
		op   operation
	}{
		{"create", func(ctx context.Context, c *client, i int) error {
			return c.do(ctx, request{method: "POST", path: r.objects, contentType: asJSON, body: r.kind.object(r.name(i), i, 1)})
		}},
		{"patch", r.patch},
		{"apply", r.apply},
	} {
		steps = append(steps, step{fmt.Sprintf("%s %d objects", s.verb, r.load.Objects), func(ctx context.Context) error {
			_, err := r.measure(ctx, 16, amount{operations: r.load.Objects}, s.op)
			return err
		}})
	}
	return steps
}

// name returns the name of an existing object; they are used in turn.
func (r *run) name(i int) string { return fmt.Sprintf("w%06d", i%r.load.Objects) }

// replicas returns a number that no object has had. The first ones have four digits, as all do in a
// short run.
func (r *run) replicas() int { return 1000 + int(r.changes.Add(1)) }

func (r *run) connect(ctx context.Context, _ *client, _ int) error {
	c, err := r.dialler.client()
	if err != nil {
		return err
	}
	defer c.close()
	return c.do(ctx, request{method: "GET", path: "/version"})
}

func (r *run) get(ctx context.Context, c *client, i int) error {
	return c.do(ctx, request{method: "GET", path: r.objects + "/" + r.name(i)})
}

func (r *run) patch(ctx context.Context, c *client, i int) error {
	body := fmt.Sprintf(`{"spec":{"replicas":%d}}`, r.replicas())
	return c.do(ctx, request{method: "PATCH", path: r.objects + "/" + r.name(i), contentType: asMerge, body: body})
}

func (r *run) apply(ctx context.Context, c *client, i int) error {
	path := r.objects + "/" + r.name(i) + "?fieldManager=kapok-bench-apply&force=true"
	return c.do(ctx, request{method: "PATCH", path: path, contentType: asApply, body: r.kind.object(r.name(i), i%r.load.Objects, r.replicas())})
}

func (r *run) list(query, encoding string) operation {
	return func(ctx context.Context, c *client, _ int) error {
		return c.do(ctx, request{method: "GET", path: r.objects + query, encoding: encoding})
	}
}

func (r *run) create(ctx context.Context, c *client, i int) error {
	name := fmt.Sprintf("c%06d", r.created.Add(1))
	return c.do(ctx, request{method: "POST", path: r.objects, contentType: asJSON, body: r.kind.object(name, i, 1)})
}

// memory adds the server's memory to the report.
func (r *run) memory(name, title string) error {
	u, err := r.processes.use()
	if err == nil {
		r.result.Memory = append(r.result.Memory, Memory{name, title, u.rssAnon, u.rssFiles})
	}
	return err
}

func (r *run) memoryOfLoad(ctx context.Context) ([]Measure, error) {
	what := fmt.Sprintf("%d objects, created, patched, applied", r.load.Objects)
	if err := r.memory("loaded", what+": at once"); err != nil {
		return nil, err
	}
	r.pause(ctx, r.load.quiet)
	return nil, r.memory("loaded-quiet", fmt.Sprintf("the same, %v later", r.load.quiet))
}
