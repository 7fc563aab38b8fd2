package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// one is a journal that accepts one object of a resource in each batch, like etcd, and takes some
// time for it.
type one struct {
	*memory.Journal
	sink journal.Sink
	time atomic.Int64
}

func (o *one) Recover(ctx context.Context, s journal.Sink) error {
	o.sink = s
	return o.Journal.Recover(ctx, s)
}

func (o *one) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	for i := range b.Entries {
		for k := range i {
			if b.Entries[k].Key.Resource == b.Entries[i].Key.Resource {
				return 0, fmt.Errorf("batch writes two %s: %w", b.Entries[i].Key.Resource, errors.ErrUnsupported)
			}
		}
	}
	time.Sleep(time.Duration(o.time.Load()))
	return o.Journal.Append(ctx, b)
}

func newServerOn(t *testing.T, j *one) *server {
	st, err := state.Open(context.Background(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, items: kind("Item", true), roots: kind("Root", false)}
	s.store = resource.NewStore(st, resource.NewRegistry(append(kinds.Definitions(), s.items, s.roots)...))
	s.reaper = Start(context.Background(), s.store, Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() { s.reaper.Close(); j.Close() })
	for _, name := range []string{"n", "m"} {
		s.mustCreate("Namespace", "", name, nil)
	}
	return s
}

// TestTogether checks that many dependents, and the objects in a namespace, do not wait for the
// journal one after another.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &one{Journal: memory.New()}
		s := newServerOn(t, j)
		create := func() (owner *object.Object) {
			owner = s.mustCreate("ConfigMap", "n", "owner", nil)
			for i := range 10 * writers {
				s.mustCreate("ConfigMap", "n", fmt.Sprint("c", i), func(obj resource.Tree) {
					obj["metadata"].(resource.Tree)["ownerReferences"] = []any{resource.Tree{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": string(owner.Meta.UID)}}
				})
			}
			return owner
		}
		left := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait()
			return s.store.State().Count(schema.GroupResource{Resource: "configmaps"})
		}
		create()
		j.time.Store(int64(time.Second))
		if err := s.delete(s.definition("ConfigMap"), "n", "owner", ""); err != nil {
			t.Fatal(err)
		}
		if n := left(15 * time.Second); n > 0 {
			t.Errorf("%d dependents are left", n)
		}
		j.time.Store(0)
		create()
		j.time.Store(int64(time.Second))
		if err := s.delete(s.definition("Namespace"), "", "n", ""); err != nil {
			t.Fatal(err)
		}
		if n := left(20 * time.Second); n > 0 {
			t.Errorf("%d objects are left in the namespace", n)
		}
	})
}

// TestExpireOneByOne checks that events expire even if a batch has one object of a resource at
// most.
func TestExpireOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServerOn(t, &one{Journal: memory.New()})
		for n := range 5 {
			s.mustCreate("Event", "n", fmt.Sprint("e", n), func(obj resource.Tree) {
				obj["involvedObject"] = resource.Tree{"namespace": "n", "kind": "Item", "name": "x"}
			})
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := s.store.State().Count(s.definition("Event").GroupResource()); n != 0 {
			t.Errorf("%d events still exist after a day", n)
		}
	})
}

// TestOwnerReplaced checks an owner that was deleted and created again in what the journal, after a
// gap, reports as one change.
func TestOwnerReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &one{Journal: memory.New()}
		s := newServerOn(t, j)
		owner := s.mustCreate("ConfigMap", "n", "owner", nil)
		s.mustCreate("ConfigMap", "n", "dependent", func(obj resource.Tree) {
			obj["metadata"].(resource.Tree)["ownerReferences"] = []any{resource.Tree{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": string(owner.Meta.UID)}}
		})
		synctest.Wait()
		tree, err := owner.Tree()
		if err != nil {
			t.Fatal(err)
		}
		tree["metadata"].(map[string]any)["uid"] = "another"
		o, err := object.New(owner.Key, tree, owner.Schema, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		o.Revision = 100
		j.sink.Rebase([]journal.Entry{{Key: o.Key, Prev: owner.Revision, Revision: 100, Object: o}}, 101)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got, _ := s.store.State().Get(object.Key{Resource: owner.Key.Resource, Namespace: "n", Name: "dependent"}); got != nil {
			t.Error("the dependent of a deleted owner still exists")
		}
	})
}

// TestUnreadableOwner checks that an unreadable owner counts as possibly existing.
func TestUnreadableOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &one{Journal: memory.New()}
		s := newServerOn(t, j)
		owner := object.Key{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "n", Name: "owner"}
		j.sink.Unreadable(owner, errors.New("no key"))
		s.mustCreate("ConfigMap", "n", "dependent", func(obj resource.Tree) {
			obj["metadata"].(resource.Tree)["ownerReferences"] = []any{resource.Tree{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}}
		})
		there := func() bool {
			time.Sleep(time.Hour)
			synctest.Wait()
			o, _ := s.store.State().Get(object.Key{Resource: owner.Resource, Namespace: "n", Name: "dependent"})
			return o != nil
		}
		if !there() {
			t.Error("the dependent was deleted although its owner may exist")
		}
		j.sink.Unreadable(owner, nil)
		if there() {
			t.Error("the dependent still exists although its owner does not")
		}
	})
}
