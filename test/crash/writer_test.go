package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// writer writes objects that no other writer writes, one request after the other.
type writer struct {
	kind  kind
	names []*history
}

func newWriter(k kind, id, names int) *writer {
	w := &writer{kind: k}
	for n := range names {
		w.names = append(w.names, &history{name: fmt.Sprintf("writer-%d-%d", id, n)})
	}
	return w
}

// run writes until the server does not respond; done is called after each response.
// An unexpected response is an error.
func (w *writer) run(ctx context.Context, c *client, random *rand.Rand, done func()) error {
	for {
		h := w.names[random.IntN(len(w.names))]
		var err error
		switch dice := random.IntN(10); {
		case h.current() == object{}:
			err = w.create(ctx, c, h)
		case dice < 2:
			err = w.delete(ctx, c, h)
		case dice < 6:
			err = w.change(ctx, c, h, "application/merge-patch+json", "")
		default:
			err = w.change(ctx, c, h, "application/apply-patch+yaml", "?fieldManager=writer&force=true")
		}
		if answer := (refused{}); errors.As(err, &answer) {
			return answer
		}
		if err != nil {
			return nil
		}
		done()
	}
}

func (w *writer) create(ctx context.Context, c *client, h *history) error {
	step := h.begin("ADDED")
	e, err := c.do(ctx, "POST", w.kind.collection, "application/json", w.kind.manifest(h.name, step))
	return note(h, e, err)
}

func (w *writer) change(ctx context.Context, c *client, h *history, patch, query string) error {
	step := h.begin("MODIFIED")
	e, err := c.do(ctx, "PATCH", w.kind.collection+"/"+h.name+query, patch, w.kind.manifest(h.name, step))
	return note(h, e, err)
}

// delete names the object that it means: another of that name is not to go.
func (w *writer) delete(ctx context.Context, c *client, h *history) error {
	was := h.current()
	h.begin("DELETED")
	_, err := c.do(ctx, "DELETE", w.kind.collection+"/"+h.name, "application/json",
		fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":%q}}`, was.uid))
	if err == nil {
		h.acknowledge(was)
	}
	return err
}

// note writes down an answer that is an object.
func note(h *history, e *encoded, err error) error {
	if err != nil {
		return err
	}
	before, step := h.current(), len(h.writes)
	o, err := e.read()
	if err != nil {
		return refused{err}
	}
	if o.step != step || o.rv <= before.rv {
		return refused{fmt.Errorf("%s: the answer to step %d is %v, before it was %v", h.name, step, o, before)}
	}
	h.acknowledge(o)
	return nil
}
