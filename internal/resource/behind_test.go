package resource_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// hub is the shared store of several servers.
type hub struct {
	*journaltest.Twin
	core *memory.Journal
}

func newHub(t *testing.T) *hub {
	h := &hub{Twin: journaltest.NewTwin(), core: memory.New()}
	if err := h.core.Recover(t.Context(), h.Twin); err != nil {
		t.Fatal(err)
	}
	return h
}

// late is a journal on a hub. It delivers the writes of other servers as late as it may: before a
// write of its own returns, and on Sync.
type late struct {
	journal.Journal
	hub     *hub
	sink    journal.Sink
	mu      sync.Mutex
	at      int
	failure error  // of Sync and Append
	news    func() // called by Sync, if set
}

func (l *late) Recover(_ context.Context, sink journal.Sink) error {
	l.Journal, l.sink = l.hub.core, sink
	sink.Restored(0, 0)
	l.catchUp()
	return nil
}

func (l *late) catchUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.hub.Entries()[l.at:]
	for i := range entries {
		l.sink.Apply(entries[i : i+1])
	}
	l.at += len(entries)
}

func (l *late) Sync(context.Context) (shared bool, err error) {
	if l.failure != nil {
		return false, l.failure
	}
	l.catchUp()
	if l.news != nil {
		l.news()
	}
	return true, nil
}

func (l *late) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	if l.failure != nil {
		return 0, l.failure
	}
	defer l.catchUp()
	return l.hub.core.Append(ctx, b)
}

// deaf is a journal with a history that cannot be read now.
type deaf struct{ *late }

func (deaf) KeepsHistory() bool         { return true }
func (deaf) Compacted() object.Revision { return 0 }

func (deaf) History(context.Context, schema.GroupResource, object.Revision, object.Revision, int) ([]journal.Record, error) {
	return nil, fmt.Errorf("%w: no server answers", journal.ErrUnavailable)
}

// TestHistoryIsAway: what memory does not hold is refused for the moment, before a
// stream begins; a stream that needs it ends without an event, so that clients come
// again where they were.
func TestHistoryIsAway(t *testing.T) {
	h := newHub(t)
	b := newBenchOn(t, deaf{&late{hub: h}}, state.Options{HistoryBytes: 1})
	ns := b.request("default")
	ns.Definition, ns.Version, ns.Namespace, ns.Name = b.namespaces, b.namespaces.Storage, "", ""
	b.mustCreate(ns, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`)
	old := b.widget("x", "").Revision.String()
	open, err := b.Watch(t.Context(), b.request(""), resource.WatchOptions{ResourceVersion: old})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		b.mustPatch("x", fmt.Sprintf(`{"spec":{"n":%d}}`, n))
	}
	if _, _, err := open.Next(t.Context()); err != resource.ErrEnds {
		t.Errorf("an open watch: %v", err)
	}
	for what, err := range map[string]error{
		"watch": second(b.Watch(t.Context(), b.request(""), resource.WatchOptions{ResourceVersion: old})),
		"list":  second(b.List(t.Context(), b.request(""), resource.ListOptions{ResourceVersion: old, ResourceVersionMatch: metav1.ResourceVersionMatchExact})),
	} {
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != http.StatusServiceUnavailable || status.Status().Details.RetryAfterSeconds != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// servers returns two servers on one hub, the second of which learns late of what
// the first writes.
func servers(t *testing.T) (first, second *bench, line *late) {
	h := newHub(t)
	first = newBenchOn(t, &late{hub: h}, state.Options{})
	ns := first.request("default")
	ns.Definition, ns.Version, ns.Namespace, ns.Name = first.namespaces, first.namespaces.Storage, "", ""
	first.mustCreate(ns, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`)
	line = &late{hub: h}
	return first, newBenchOn(t, line, state.Options{}), line
}

// TestReadsAreConsistent checks that a read without a resourceVersion shows every acknowledged
// write.
func TestReadsAreConsistent(t *testing.T) {
	a, b, _ := servers(t)
	a.widget("x", "")
	if _, err := b.Get(t.Context(), b.request("x"), "0"); !apierrors.IsNotFound(err) {
		t.Errorf("the server is not late: %v", err)
	}
	if list := b.mustList(resource.ListOptions{ResourceVersion: "0"}); len(list.Objects) != 0 {
		t.Errorf("the server is not late: %v", names(list.Objects))
	}
	if _, err := b.Get(t.Context(), b.request("x"), ""); err != nil {
		t.Errorf("get: %v", err)
	}
	a.widget("y", "")
	if list := b.mustList(resource.ListOptions{}); len(list.Objects) != 2 {
		t.Errorf("list shows %v", names(list.Objects))
	}
	a.widget("z", "")
	w, err := b.Watch(t.Context(), b.request(""), resource.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.drain(w), ", "); got != "ADDED x, ADDED y, ADDED z" {
		t.Errorf("watch begins with %s", got)
	}
}

// TestWritesAreConsistent: a server that is late refuses nothing, and finds nothing
// done, for what is no longer so.
func TestWritesAreConsistent(t *testing.T) {
	uid := func(o *object.Object) *metav1.DeleteOptions {
		return &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.Meta.UID}}
	}
	put := func(b *bench, name string, at object.Revision, rest string) error {
		body := strings.Replace(widgetJSON(name, rest), `"name":`, `"resourceVersion":"`+at.String()+`","name":`, 1)
		_, err := b.Update(t.Context(), b.request(name), resource.Body{Data: []byte(body)})
		return err
	}
	for name, run := range map[string]func(a, b *bench){
		"update of what is new": func(a, b *bench) {
			if err := put(b, "x", a.widget("x", "").Revision, `,"spec":{"n":1}`); err != nil {
				t.Error(err)
			}
		},
		"patch of what is new": func(a, b *bench) {
			a.widget("x", "")
			b.mustPatch("x", `{"spec":{"n":1}}`)
		},
		"delete of what is new": func(a, b *bench) {
			o := a.widget("x", "")
			if _, err := b.Delete(t.Context(), b.request("x"), uid(o)); err != nil {
				t.Error(err)
			}
		},
		"create of what is gone": func(a, b *bench) {
			a.widget("x", "")
			b.mustList(resource.ListOptions{})
			if _, err := a.Delete(t.Context(), a.request("x"), nil); err != nil {
				t.Error(err)
			}
			b.widget("x", "")
		},
		"create in a namespace that is new": func(a, b *bench) {
			ns := a.request("new")
			ns.Definition, ns.Version, ns.Namespace, ns.Name = a.namespaces, a.namespaces.Storage, "", ""
			a.mustCreate(ns, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"new"}}`)
			r := b.request("")
			r.Namespace = "new"
			b.mustCreate(r, widgetJSON("x", ""))
		},
		"change that is undone elsewhere": func(a, b *bench) {
			a.widget("x", `,"spec":{"n":1}`)
			b.mustList(resource.ListOptions{})
			a.mustPatch("x", `{"spec":{"n":2}}`)
			if o := b.mustPatch("x", `{"spec":{"n":1}}`); a.State().Revision() >= o.Revision {
				t.Error("the patch was taken for one that changes nothing")
			}
		},
		"dry run of what is new": func(a, b *bench) {
			a.widget("x", "")
			r := b.request("x")
			r.DryRun = true
			if _, err := b.patch(r, types.MergePatchType, `{"spec":{"n":1}}`); err != nil {
				t.Error(err)
			}
		},
		"create of what is there": func(a, b *bench) {
			a.widget("x", "")
			if _, err := b.Create(t.Context(), b.request(""), resource.Body{Data: []byte(widgetJSON("x", ""))}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("created twice: %v", err)
			}
		},
		"update of what is gone": func(a, b *bench) {
			o := a.widget("x", "")
			b.mustList(resource.ListOptions{})
			if _, err := a.Delete(t.Context(), a.request("x"), nil); err != nil {
				t.Error(err)
			}
			if err := put(b, "x", o.Revision, `,"spec":{"n":1}`); !apierrors.IsNotFound(err) {
				t.Errorf("update of what is gone: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, _ := servers(t)
			run(a, b)
		})
	}
}

// TestJournalErrors: what the API answers for what a journal says.
func TestJournalErrors(t *testing.T) {
	for _, tc := range []struct {
		failure error
		code    int32
		retry   int32
		read    int32 // what a consistent read answers
	}{
		{journal.ErrUnknown, http.StatusGatewayTimeout, 0, 0},
		{journal.ErrFull, http.StatusInsufficientStorage, 0, 0},
		{journal.ErrTooLarge, 0, 0, 0},
		{journal.ErrUnavailable, http.StatusServiceUnavailable, 1, http.StatusServiceUnavailable},
		{journal.ErrClosed, http.StatusServiceUnavailable, 1, http.StatusServiceUnavailable},
		{errors.New("something else"), http.StatusInternalServerError, 0, 0},
	} {
		t.Run(tc.failure.Error(), func(t *testing.T) {
			a, b, line := servers(t)
			a.widget("x", "")
			b.mustList(resource.ListOptions{})
			line.failure = tc.failure
			status := func(err error) metav1.Status {
				var s apierrors.APIStatus
				if errors.As(err, &s) {
					return s.Status()
				}
				return metav1.Status{}
			}
			_, err := b.patch(b.request("x"), types.MergePatchType, `{"spec":{"n":1}}`)
			got := status(err)
			if err == nil || got.Code != tc.code {
				t.Errorf("a write answers %v, want %d", err, tc.code)
			}
			if retry := got.Details; tc.retry > 0 && (retry == nil || retry.RetryAfterSeconds != tc.retry) || tc.retry == 0 && retry != nil && retry.RetryAfterSeconds > 0 {
				t.Errorf("retryAfterSeconds of a write: got %+v, want %d", retry, tc.retry)
			}
			// What need not be new can be read, whatever the journal says.
			if _, err := b.Get(t.Context(), b.request("x"), "0"); err != nil {
				t.Errorf("get at 0: %v", err)
			}
			if tc.read == 0 {
				return
			}
			for what, err := range map[string]error{
				"get":    second(b.Get(t.Context(), b.request("x"), "")),
				"list":   second(b.List(t.Context(), b.request(""), resource.ListOptions{})),
				"delete": second(b.Delete(t.Context(), b.request("nothing"), nil)),
			} {
				if got := status(err); got.Code != tc.read || got.Details == nil || got.Details.RetryAfterSeconds != 1 {
					t.Errorf("%s answers %v, want %d", what, err, tc.read)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestStaleIsRewritten: a write that changes nothing is worth while where the object
// is stored in a way that is no longer wanted.
func TestStaleIsRewritten(t *testing.T) {
	old := object.Revision(0) // what has been written up to here is stale
	b := newBench(t, state.Options{Stale: func(o *object.Object) bool { return o.Revision <= old }})
	b.widget("x", "")
	o := b.mustPatch("x", `{"spec":{"n":1}}`)
	if same := b.mustPatch("x", `{}`); same.Revision != o.Revision {
		t.Error("written for no reason")
	}
	o.Stale = true
	again := b.mustPatch("x", `{}`)
	if again.Revision == o.Revision || again.Stale {
		t.Errorf("not written again: revision %d", again.Revision)
	}
	old = again.Revision
	if last := b.mustPatch("x", `{}`); last.Revision == again.Revision {
		t.Errorf("not written again: revision %d", last.Revision)
	}
}

// TestUnreadable: what is not known is an error, and nothing that is not there; also
// where that is learned on the way.
func TestUnreadable(t *testing.T) {
	for _, late := range []bool{false, true} {
		a, b, line := servers(t)
		a.widget("x", "")
		key := b.request("y").Key()
		learn := func() { line.sink.Unreadable(key, journal.ErrUnopened) }
		for what, ask := range map[string]func() error{
			"get":    func() error { return second(b.Get(t.Context(), b.request("y"), "")) },
			"list":   func() error { return second(b.List(t.Context(), b.request(""), resource.ListOptions{})) },
			"watch":  func() error { return watched(b, resource.WatchOptions{}) },
			"delete": func() error { return second(b.Delete(t.Context(), b.request("y"), nil)) },
			"patch":  func() error { return second(b.patch(b.request("y"), types.MergePatchType, `{}`)) },
		} {
			line.sink.Unreadable(key, nil)
			if line.news = nil; late {
				line.news = learn
			} else {
				learn()
			}
			var status apierrors.APIStatus
			if err := ask(); !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError || !strings.Contains(err.Error(), "y cannot be read") {
				t.Errorf("%s, learned on the way %t: %v", what, late, err)
			}
		}
		line.news = nil
		line.sink.Unreadable(key, nil)
		if _, err := b.Get(t.Context(), b.request("y"), ""); !apierrors.IsNotFound(err) {
			t.Errorf("get, when it is known: %v", err)
		}
	}
}

// watched returns the error with which a watch is refused, or begins.
func watched(b *bench, o resource.WatchOptions) error {
	w, err := b.Watch(b.Context(), b.request(""), o)
	if err == nil {
		_, _, err = w.Next(b.Context())
	}
	return err
}
