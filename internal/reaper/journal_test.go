package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// one is a journal that takes one object of a resource in a batch, as etcd does.
type one struct {
	*memory.Journal
	sink journal.Sink
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
	return o.Journal.Append(ctx, b)
}

func newServerOn(t *testing.T, j *one) *server {
	st, err := state.Open(context.Background(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, items: kind("Item", true), roots: kind("Root", false)}
	s.store = resource.NewStore(st, resource.NewRegistry(append(builtin.Definitions(), s.items, s.roots)...))
	s.reaper = Start(context.Background(), s.store, Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() { s.reaper.Close(); j.Close() })
	for _, name := range []string{"n", "m"} {
		s.mustCreate("Namespace", "", name, nil)
	}
	return s
}

// TestExpireOneByOne: events end also where a batch takes one object of a resource.
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
			t.Errorf("%d events are left after a day", n)
		}
	})
}

// TestOwnerReplaced: a journal that has lost sight tells of an owner that was deleted
// and made anew as of one change.
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
			t.Error("the dependent of an owner that is gone is there for ever")
		}
	})
}

// TestUnreadableOwner: an owner that cannot be read may exist.
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
			t.Error("a dependent is gone whose owner may exist")
		}
		j.sink.Unreadable(owner, nil)
		if there() {
			t.Error("a dependent is there whose owner does not exist")
		}
	})
}
