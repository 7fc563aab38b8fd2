package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A client does one random operation after the other.
type client struct {
	*run
	id      int
	random  *rand.Rand
	seen    map[Key]Object // the last states that it saw, which others may have changed
	newest  Revision       // the newest revision that it saw
	past    []Revision     // some older ones
	written int
	history []Operation
	only    *Endpoint // that it uses; nil: any
}

// endpoint returns the endpoint of the next request.
func (c *client) endpoint(random *rand.Rand) *Endpoint {
	if c.only != nil {
		return c.only
	}
	return c.run.endpoint(random)
}

// work runs operations until the context is done. The operation under way then is completed.
func (c *client) work(ctx context.Context) {
	for ctx.Err() == nil {
		o := c.choose()
		c.perform(ctx, &o)
		if o.Outcome == Refused || o.Outcome == Unknown {
			c.pause(ctx, c.random)
		}
	}
}

// choose returns a random operation.
func (c *client) choose() Operation {
	o := Operation{Client: c.id, Key: c.slots.pick(c.random)}
	is := c.board.look(o.Key)
	if c.random.IntN(5) == 0 {
		is = c.seen[o.Key]
	}
	switch dice := c.random.IntN(100); {
	case dice < 25:
		o.Verb, o.Mode = Get, Latest
	case dice < 28:
		o.Verb, o.Mode = Get, Any
	case dice < 31:
		o.Verb, o.Mode, o.At = Get, NotOlder, c.newest
	case dice < 37:
		o.Verb, o.Key.Name = List, ""
		switch c.random.IntN(6) {
		case 0:
			o.Mode = Any
		case 1:
			o.Mode, o.At = NotOlder, c.newest
		case 2:
			o.Mode, o.At = Exact, c.newest
			if len(c.past) > 0 && c.random.IntN(2) == 0 {
				o.At = c.past[c.random.IntN(len(c.past))]
			}
		default:
			o.Mode = Latest
		}
	case is == Object{} || dice < 40:
		o.Verb = Create
	case dice < 52 && !c.config.NoDeletes:
		o.Verb = Delete
		o.UID, o.Revision = c.preconditions(is)
	case dice < 65:
		o.Verb = Patch
		if c.random.IntN(2) == 0 {
			_, o.Revision = c.preconditions(is)
		}
	default:
		o.Verb, o.Revision = Update, is.Revision
		if c.random.IntN(3) == 0 {
			o.UID = is.UID
		}
		if o.Key.Kind == ConfigMaps && c.random.IntN(3) == 0 {
			o.Revision = 0
		}
	}
	if o.At == 0 && (o.Mode == NotOlder || o.Mode == Exact) {
		o.Mode = Latest // no revision is known yet
	}
	if o.writes() && o.Verb != Delete {
		c.written++
		o.Value = fmt.Sprintf("%d-%d", c.id, c.written)
	}
	return o
}

// preconditions adds some preconditions that match an object.
func (c *client) preconditions(is Object) (uid string, r Revision) {
	dice := c.random.IntN(4)
	if dice&1 != 0 {
		uid = is.UID
	}
	if dice&2 != 0 {
		r = is.Revision
	}
	return uid, r
}

// perform sends an operation, and records its outcome.
func (c *client) perform(ctx context.Context, o *Operation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.Timeout)
	defer cancel()
	e := c.endpoint(c.random)
	o.Endpoint = e.Name
	if o.Verb == List {
		c.list(ctx, e, o)
	} else {
		c.request(ctx, e, o)
	}
	c.history = append(c.history, *o)
	c.learn(o)
	if o.Outcome != Refused && c.missing.Add(-1) == 0 {
		close(c.enough)
	}
}

func (c *client) request(ctx context.Context, e *Endpoint, o *Operation) {
	var method, query, contentType, body string
	path := o.Key.Kind.collection(c.namespace)
	if o.Verb != Create {
		path += "/" + o.Key.Name
	}
	switch contentType = "application/json"; o.Verb {
	case Create:
		method, body = http.MethodPost, o.Key.Kind.manifest(o)
	case Update:
		method, body = http.MethodPut, o.Key.Kind.manifest(o)
	case Patch:
		method, body, contentType = http.MethodPatch, o.Key.Kind.manifest(o), "application/merge-patch+json"
	case Delete:
		method, body = http.MethodDelete, deleteOptions(o)
	case Get:
		method = http.MethodGet
		switch o.Mode {
		case Any:
			query = "?resourceVersion=0"
		case NotOlder:
			query = fmt.Sprintf("?resourceVersion=%d", o.At)
		}
	}
	o.Call = c.now()
	status, answer, err := e.do(ctx, method, path+query, contentType, body)
	o.Return = c.now()
	o.Outcome = c.judge(o, status, &answer, err)
	if o.Outcome == Done && o.Verb == Delete {
		o.Object = Object{UID: answer.Details.UID}
	} else if o.Outcome == Done {
		o.Object = answer.object()
	}
}

func deleteOptions(o *Operation) string {
	var conditions []string
	if o.UID != "" {
		conditions = append(conditions, fmt.Sprintf(`"uid":%q`, o.UID))
	}
	if o.Revision != 0 {
		conditions = append(conditions, fmt.Sprintf(`"resourceVersion":"%d"`, o.Revision))
	}
	if len(conditions) == 0 {
		return ""
	}
	return `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{` + strings.Join(conditions, ",") + `}}`
}

// list reads a collection, sometimes in pages, each from any endpoint. The result of a list that
// fails is discarded: it can be retried as a whole only.
func (c *client) list(ctx context.Context, e *Endpoint, o *Operation) {
	query := url.Values{}
	switch o.Mode {
	case Any:
		query.Set("resourceVersion", "0")
	case NotOlder, Exact:
		query.Set("resourceVersion", fmt.Sprint(uint64(o.At)))
		query.Set("resourceVersionMatch", map[Mode]string{NotOlder: "NotOlderThan", Exact: "Exact"}[o.Mode])
	}
	if c.random.IntN(2) == 0 {
		query.Set("limit", fmt.Sprint(1+c.random.IntN(4)))
	}
	o.Call = c.now()
	for {
		status, answer, err := e.do(ctx, http.MethodGet, o.Key.Kind.collection(c.namespace)+"?"+query.Encode(), "", "")
		if o.Return == 0 {
			o.Return = c.now()
		}
		if o.Outcome = c.judge(o, status, &answer, err); o.Outcome != Done {
			o.Pages = nil
			return
		}
		o.Pages = append(o.Pages, answer.page())
		if answer.Metadata.Continue == "" {
			return
		}
		query.Set("continue", answer.Metadata.Continue)
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch")
		e = c.endpoint(c.random)
	}
}

// judge returns the outcome of a request, and fails the run if the response is invalid.
func (c *client) judge(o *Operation, status int, answer *wire, err error) Outcome {
	outcome, proper := outcomeOf(o.Key.Name, status, answer, err)
	if !proper && !(status == http.StatusInternalServerError && c.config.Unreadable && !o.writes()) {
		c.fail("an answer that should not be: %v: %d %s: %s", o, status, answer.Reason, answer.Message)
	}
	if outcome == Unknown && !o.writes() {
		return Refused // a read without a response has no effect
	}
	return outcome
}

// learn records a response for later operations.
func (c *client) learn(o *Operation) {
	if o.Outcome == Done && o.Verb == List {
		c.newest = max(c.newest, o.Pages[0].Revision)
		if c.past = append(c.past, c.newest); len(c.past) > 50 {
			c.past = c.past[1:]
		}
		return
	}
	switch {
	case o.Outcome == NotFound, o.Outcome == Done && o.Verb == Delete:
		delete(c.seen, o.Key)
		c.board.gone(o)
	case o.Outcome == Done:
		c.newest = max(c.newest, o.Object.Revision)
		c.seen[o.Key] = o.Object
		c.board.is(o.Key, o.Object)
	}
}

// pause waits for some milliseconds after a failure.
func (r *run) pause(ctx context.Context, random *rand.Rand) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(1+random.IntN(20)) * time.Millisecond):
	}
}
