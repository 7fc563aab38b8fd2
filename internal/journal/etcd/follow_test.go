package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func pod(name string) object.Key {
	return object.Key{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "default", Name: name}
}

func objectOf(t testing.TB, key object.Key, text string) *object.Object {
	t.Helper()
	o, err := object.New(key, map[string]any{"metadata": map[string]any{"uid": "u"}, "text": text}, 3, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func newFollower(t *testing.T) (*follower, *journaltest.Twin) {
	twin := journaltest.NewPlainTwin()
	j := &Journal{log: slog.New(slog.NewTextHandler(t.Output(), nil)), values: *testValues()}
	j.pending.init()
	j.position.init()
	j.mu.damaged = map[object.Key]object.Revision{}
	return &follower{Journal: j, sink: twin, live: map[object.Key]object.Revision{}, at: 1}, twin
}

// events in short: a key, a value ("-" deletes) and a revision.
func putEvent(t *testing.T, key, text string, revision int64) *mvccpb.Event {
	kv := &mvccpb.KeyValue{Key: []byte("/registry/" + key), ModRevision: revision}
	if text == "-" {
		return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: kv}
	}
	kv.Value = []byte(text)
	if text != "bad" && key != "kapok/compacted" {
		kv.Value = objectOf(t, pod("a"), text).Raw
	}
	return &mvccpb.Event{Kv: kv}
}

func TestApply(t *testing.T) {
	f, twin := newFollower(t)
	apply := func(events ...*mvccpb.Event) {
		t.Helper()
		if err := f.apply(events); err != nil {
			t.Fatal(err)
		}
	}
	apply(putEvent(t, "pods/default/a", "1", 2), putEvent(t, "pods/default/b", "1", 3), putEvent(t, "pods/default/a", "2", 4))
	// What it has is passed over; a part of what comes may be new.
	apply(putEvent(t, "pods/default/b", "1", 3), putEvent(t, "pods/default/a", "2", 4))
	// What is no object's, and a deletion of what was never there.
	apply(putEvent(t, "pods/default/b", "-", 5), putEvent(t, "masterleases/x", "1", 6), putEvent(t, "kapok/compacted", "3", 7), putEvent(t, "pods/default/c", "-", 8))
	if twin.Revision(pod("a")) != 4 || twin.Revision(pod("b")) != 0 || len(twin.Entries()) != 4 {
		t.Errorf("entries %v", twin.Entries())
	}
	if head, _ := f.Head(); head != 5 || f.position.now() != 8 || f.Compacted() != 3 || f.mu.mark != 7 {
		t.Errorf("head %d, at %d, compacted up to %d by the mark of %d", head, f.position.now(), f.Compacted(), f.mu.mark)
	}
	if err := f.apply([]*mvccpb.Event{putEvent(t, "pods/default/a", "3", 12), putEvent(t, "pods/default/a", "4", 11)}); err == nil {
		t.Error("takes revision 11 after 12")
	}
	if twin.Revision(pod("a")) != 12 {
		t.Errorf("a is at revision %d", twin.Revision(pod("a")))
	}
}

// TestApplyDamaged: what cannot be read leaves what was there, and is known.
func TestApplyDamaged(t *testing.T) {
	f, twin := newFollower(t)
	apply := func(events ...*mvccpb.Event) {
		t.Helper()
		if err := f.apply(events); err != nil {
			t.Fatal(err)
		}
	}
	apply(putEvent(t, "pods/default/a", "1", 2))
	apply(putEvent(t, "pods/default/a", "bad", 3), putEvent(t, "pods/default/b", "bad", 4))
	if twin.Revision(pod("a")) != 2 || twin.Revision(pod("b")) != 0 || f.position.now() != 4 {
		t.Errorf("entries %v", twin.Entries())
	}
	if f.damagedAt(pod("a")) == nil || f.damagedAt(pod("b")) == nil {
		t.Error("not known")
	}
	apply(putEvent(t, "pods/default/a", "2", 5), putEvent(t, "pods/default/b", "-", 6))
	if twin.Revision(pod("a")) != 5 || len(twin.Entries()) != 2 || f.damagedAt(pod("a")) != nil || f.damagedAt(pod("b")) != nil {
		t.Errorf("entries %v", twin.Entries())
	}
}

// TestGoneUnread checks that a value that could never be read, and is absent when etcd is listed
// again, does not block waiters.
func TestGoneUnread(t *testing.T) {
	f, twin := newFollower(t)
	if err := f.apply([]*mvccpb.Event{putEvent(t, "pods/default/a", "bad", 2), putEvent(t, "pods/default/b", "bad", 3)}); err != nil {
		t.Fatal(err)
	}
	list := listing{head: 9, damaged: []damage{{pod("b"), 3, errors.New("still")}}}
	changes, _ := f.differences(&list)
	twin.Rebase(changes, list.head)
	f.clear()
	if err := twin.Readable(pod("a")); err != nil || f.damagedAt(pod("a")) != nil {
		t.Errorf("it is gone, and cannot be read: %v", err)
	}
	if twin.Readable(pod("b")) == nil || f.damagedAt(pod("b")) == nil {
		t.Error("what still cannot be read can be")
	}
}

// TestOwn: a replica applies its own batch if that is the next revision, and the
// watch does not apply it again.
func TestOwn(t *testing.T) {
	f, twin := newFollower(t)
	own := func(name string, prev, revision object.Revision) (*put, bool) {
		w := &put{object: objectOf(t, pod(name), "1")}
		w.stored = w.object.Raw
		f.pending.add([]*put{w})
		return w, f.own(revision, []journal.Entry{{Key: pod(name), Prev: prev, Object: w.object}}, []*put{w})
	}
	if _, ok := own("a", 0, 3); ok {
		t.Error("applied revision 3 after 1")
	}
	w, ok := own("a", 0, 2)
	if !ok || twin.Live()[pod("a")] != w.object || w.object.Revision != 2 || f.position.now() != 2 {
		t.Errorf("applied %t: %v", ok, twin.Entries())
	}
	if err := f.apply([]*mvccpb.Event{putEvent(t, "pods/default/a", "1", 2), putEvent(t, "pods/default/b", "1", 3)}); err != nil {
		t.Error(err)
	}
	if _, ok := own("b", 2, 4); ok {
		t.Error("applied on top of what is not there")
	}
	if n := len(twin.Entries()); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	f.reach(7)
	if _, ok := own("c", 0, 8); !ok {
		t.Error("not applied after progress")
	}
	if head, _ := f.Head(); head != 8 {
		t.Errorf("head %d", head)
	}
}

// TestDifferences: whatever a sink missed, a listing brings it there.
func TestDifferences(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		f, twin := newFollower(t)
		all, allTwin := newFollower(t)
		all.log, f.log = slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
		stored := map[object.Key]*mvccpb.KeyValue{}
		at, missed := int64(1), 1+r.Int64N(40)
		for range 40 {
			at++
			name := fmt.Sprint(r.IntN(6))
			text := fmt.Sprint(at)
			if stored[pod(name)] != nil && r.IntN(3) == 0 {
				text = "-"
			}
			event := putEvent(t, "pods/default/"+name, text, at)
			if stored[pod(name)] = event.Kv; text == "-" {
				delete(stored, pod(name))
			}
			if at <= missed {
				f.apply([]*mvccpb.Event{event})
			}
			all.apply([]*mvccpb.Event{event})
		}
		list := listing{head: object.Revision(at)}
		for key, kv := range stored {
			o, err := f.values.object(key, kv)
			if err != nil {
				t.Fatal(err)
			}
			list.entries = append(list.entries, journal.Entry{Key: key, Revision: o.Revision, Object: o})
		}
		list.sort()
		changes, _ := f.differences(&list)
		twin.Rebase(changes, list.head)
		if err := allTwin.SameObjects(twin); err != nil {
			t.Fatalf("missed all after %d: %v", missed, err)
		}
		if len(f.live) != len(stored) {
			t.Fatalf("%d live, want %d", len(f.live), len(stored))
		}
	}
}

// responses is the other end of a watch.
type responses struct {
	grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse]
	left []*pb.WatchResponse
}

func (r *responses) Recv() (*pb.WatchResponse, error) {
	if len(r.left) == 0 {
		return nil, context.Canceled
	}
	next := r.left[0]
	r.left = r.left[1:]
	return next, nil
}

// TestFragments: however a response is cut into fragments, no revision is split, and
// progress is not reported in their midst.
func TestFragments(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var other responses
		at, total := int64(10), 0
		for range 1 + r.IntN(4) {
			var events []*mvccpb.Event
			for range 1 + r.IntN(6) {
				at++
				for range 1 + r.IntN(3) {
					events = append(events, putEvent(t, "pods/default/a", "x", at))
				}
			}
			total += len(events)
			for len(events) > 0 {
				n := 1 + r.IntN(len(events))
				other.left = append(other.left, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: at}, Events: events[:n], Fragment: n < len(events)})
				events = events[n:]
			}
			other.left = append(other.left, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: at}})
		}
		s := &stream{grpc: &other, opened: time.Now()}
		last, got := int64(10), 0
		for {
			events, reached, err := s.next()
			if err != nil {
				break
			}
			if reached > 0 && int64(reached) != last {
				t.Fatalf("progress %d after revision %d", reached, last)
			}
			got += len(events)
			for i, e := range events {
				if e.Kv.ModRevision < last || i == 0 && e.Kv.ModRevision == last {
					t.Fatalf("revision %d after %d", e.Kv.ModRevision, last)
				}
				last = e.Kv.ModRevision
			}
		}
		if got != total || last != at {
			t.Fatalf("%d events up to %d, want %d up to %d", got, last, total, at)
		}
	}
}
