package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// gadgets is the number of kinds in a group.
const gadgets = 50

// gadget returns the definition of the i-th of many kinds, and the path of its objects.
func (r *run) gadget(i int) (body, path string) {
	group := fmt.Sprintf("g%d.%s", i/gadgets, r.kind.group)
	singular := fmt.Sprintf("gadget%d", i)
	return definition(r.id, group, singular, r.load.DefinitionFields, ""),
		fmt.Sprintf("/apis/%s/v1/namespaces/%s/%ss", group, r.namespace, singular)
}

// definitions creates definitions and waits until all of their kinds are served. The condition
// Established is not enough: a server sets it before it serves the kind.
func (r *run) definitions(ctx context.Context) ([]Measure, error) {
	withMemory := len(r.processes) > 0 && r.chosen("memory")
	if withMemory {
		r.pause(ctx, r.load.quiet) // garbage of earlier measures would hide that of this one
		if err := r.memory("crds-before", "before the definitions"); err != nil {
			return nil, err
		}
	}
	before, err := r.processes.use()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	posted, err := r.measure(ctx, 16, amount{operations: r.load.Definitions}, func(ctx context.Context, c *client, i int) error {
		body, _ := r.gadget(i)
		// The request must not be cancelled, so that the definition exists when everything is
		// removed.
		return c.do(context.WithoutCancel(ctx), request{method: "POST", path: definitionsPath, contentType: asJSON, body: body})
	})
	if err != nil {
		return nil, err
	}
	for i := range r.load.Definitions {
		_, path := r.gadget(i)
		if err := r.await(ctx, path); err != nil {
			return nil, err
		}
		r.advance(float64(i+1) / float64(r.load.Definitions))
	}
	elapsed := time.Since(begin)
	after, err := r.processes.use()
	if err != nil {
		return nil, err
	}
	n := float64(r.load.Definitions)
	m := Measure{
		Name: "crds", Title: fmt.Sprintf("%d definitions, until served", r.load.Definitions), Workers: posted.Workers,
		Operations: posted.Operations, Seconds: elapsed.Seconds(), Rate: n / elapsed.Seconds(),
		CPUUs: microseconds(after.cpu-before.cpu) / n,
	}
	if withMemory {
		r.pause(ctx, r.load.quiet)
		if err := r.memory("crds-quiet", fmt.Sprintf("%s, %v later", strings.TrimSuffix(m.Title, ", until served"), r.load.quiet)); err != nil {
			return nil, err
		}
	}
	return []Measure{m}, nil
}
