package reaper

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// namespace formats the phase of a namespace, and its conditions that report a problem.
func (s *server) namespace(name string) string {
	s.t.Helper()
	o, _ := s.store.State().Get(object.Key{Resource: namespaces, Name: name})
	if o == nil {
		return "gone"
	}
	ns := &corev1.Namespace{}
	if err := json.Unmarshal(o.Raw, ns); err != nil {
		s.t.Fatal(err)
	}
	lines := []string{string(ns.Status.Phase)}
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			lines = append(lines, fmt.Sprintf("%s %s %s", c.Type, c.Reason, c.Message))
		}
	}
	return strings.Join(lines, "\n")
}

func (s *server) hold(obj resource.Tree) {
	obj["metadata"].(resource.Tree)["finalizers"] = []any{"example.com/hold"}
}

func TestDeleteNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.mustCreate("ConfigMap", "n", "a", nil)
		s.mustCreate("ConfigMap", "m", "elsewhere", nil)
		s.mustCreate("Item", "n", "held", s.hold)
		s.mustCreate("Item", "n", "held2", s.hold)
		s.mustCreate("Secret", "n", "held", s.hold)
		if err := s.delete(s.definition("Namespace"), "", "n", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := "Terminating\n" +
			"NamespaceContentRemaining SomeResourcesRemain Some resources are remaining: items.example.com has 2 resource instances, secrets. has 1 resource instances\n" +
			"NamespaceFinalizersRemaining SomeFinalizersRemain Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances"
		if got := s.namespace("n"); got != want {
			t.Errorf("namespace:\n%s\nwant:\n%s", got, want)
		}
		r := request(s.items, object.Key{Namespace: "n"}, "", nil)
		if _, err := s.store.Create(context.Background(), r, resource.Body{
			Data: []byte(`{"apiVersion":"example.com/v1","kind":"Item","metadata":{"name":"late"}}`),
		}); err == nil || !strings.Contains(err.Error(), "because it is being terminated") {
			t.Errorf("create in a terminating namespace: %v", err)
		}
		for _, held := range []struct{ kind, name string }{{"Item", "held"}, {"Item", "held2"}, {"Secret", "held"}} {
			if got := s.namespace("n"); got == "gone" {
				t.Fatalf("namespace is gone before %s %s", held.kind, held.name)
			}
			if err := s.patch(s.definition(held.kind), "n", held.name, `{"metadata":{"finalizers":null}}`); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := s.namespace("n"); got != "gone" {
			t.Errorf("namespace:\n%s\nwant it gone", got)
		}
		if got := s.namespace("m"); got != "Active" {
			t.Errorf("the other namespace:\n%s", got)
		}
		if s.store.State().Count(s.definition("ConfigMap").GroupResource()) != 1 {
			t.Error("objects of the other namespace are gone")
		}
	})
}

// TestDeleteNamespacePods checks that pods are deleted first: the objects that they use stay until
// the pods have ended.
func TestDeleteNamespacePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.mustCreate("ConfigMap", "n", "used", nil)
		s.mustCreate("Pod", "n", "ends", func(obj resource.Tree) {
			s.hold(obj)
			obj["spec"] = resource.Tree{"containers": []any{resource.Tree{"name": "c", "image": "i"}}}
		})
		if err := s.delete(s.definition("Namespace"), "", "n", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.namespace("n"); got != "Terminating" {
			t.Errorf("namespace:\n%s", got)
		}
		if s.store.State().Count(s.definition("ConfigMap").GroupResource()) != 1 {
			t.Error("an object that the pod uses is gone")
		}
		if err := s.patch(s.definition("Pod"), "n", "ends", `{"metadata":{"finalizers":null}}`); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.namespace("n"); got != "gone" {
			t.Errorf("namespace:\n%s\nwant it gone", got)
		}
	})
}

// TestNamespaceGrace checks that the objects in a namespace are deleted only after its grace, even
// if another reaper takes over.
func TestNamespaceGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.reaper.Close()
		opts := Options{Logger: s.reaper.log, NamespaceGrace: 5 * time.Second}
		s.reaper = Start(context.Background(), s.store, opts)
		s.mustCreate("ConfigMap", "n", "a", nil)
		s.mustCreate("ConfigMap", "n", "b", nil)
		if err := s.delete(s.definition("Namespace"), "", "n", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		s.reaper.Close()
		s.reaper = Start(context.Background(), s.store, opts)
		time.Sleep(1900 * time.Millisecond)
		if err := s.delete(s.definition("ConfigMap"), "n", "a", ""); err != nil {
			t.Errorf("delete within the grace: %v", err)
		}
		synctest.Wait()
		if got := s.namespace("n"); got != "Terminating" {
			t.Errorf("within its grace the namespace is:\n%s", got)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if got := s.namespace("n"); got != "gone" {
			t.Errorf("after its grace the namespace is:\n%s", got)
		}
	})
}

func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		event := func(name string) {
			s.mustCreate("Event", "n", name, func(obj resource.Tree) {
				obj["involvedObject"] = resource.Tree{"namespace": "n", "kind": "Item", "name": "x"}
			})
		}
		events := s.definition("Event")
		count := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := s.store.State().Count(events.GroupResource()); got != want {
				t.Errorf("%d events, want %d", got, want)
			}
		}
		if events.Strategy.TTL != time.Hour {
			t.Fatalf("events live for %v", events.Strategy.TTL)
		}
		for n := range 2 * atOnce {
			event(fmt.Sprint("e", n))
		}
		event("renewed")
		count(30*time.Minute, 2*atOnce+1)
		if err := s.patch(events, "n", "renewed", `{"count":2}`); err != nil {
			t.Fatal(err)
		}
		event("young")
		count(29*time.Minute, 2*atOnce+2)
		count(2*time.Minute, 2)

		// A reaper that starts later finds the objects with a time to live.
		s.reaper.Close()
		s.reaper = Start(context.Background(), s.store, Options{Logger: s.reaper.log})
		count(time.Minute, 2)
		count(30*time.Minute, 0)
	})
}

// TestExpireWhenClocksJump has a wall clock that was wrong by hours when an object was written, or
// is wrong now. No object may expire early, and none may stay for hours.
func TestExpireWhenClocksJump(t *testing.T) {
	for name, test := range map[string]struct {
		age   time.Duration // by the wall clock, of an event that a reaper finds when it starts
		lasts time.Duration
	}{
		"none":                       {age: 20 * time.Minute, lasts: 40 * time.Minute},
		"it was ahead, and is not":   {age: -5 * time.Hour, lasts: time.Hour},
		"it was behind, or is ahead": {age: 5 * time.Hour, lasts: time.Hour},
		"it began in 1970":           {age: 50 * 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.reaper.Close()
				events := s.definition("Event")
				key := events.Key("n", "e")
				tree := resource.Tree{"apiVersion": "v1", "kind": "Event", "metadata": resource.Tree{"name": "e", "namespace": "n", "uid": "u"}}
				o, err := object.New(key, tree, 0, time.Now().Add(-test.age).Round(0))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.store.State().Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Object: o}}}); err != nil {
					t.Fatal(err)
				}
				s.reaper = Start(context.Background(), s.store, Options{Logger: s.reaper.log})
				time.Sleep(test.lasts - time.Second)
				synctest.Wait()
				if got, _ := s.store.State().Get(key); got == nil && test.lasts > 0 {
					t.Errorf("the event expired before %v", test.lasts)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if got, _ := s.store.State().Get(key); got != nil {
					t.Errorf("the event still exists after %v", test.lasts)
				}
			})
		})
	}
}

// TestTimersAreMonotonic checks that jumps of the wall clock do not affect timers that are set.
func TestTimersAreMonotonic(t *testing.T) {
	s := newServer(t) // not in a bubble: its clock has no monotonic reading
	s.reaper.Close()
	r := &Reaper{state: s.store.State(), ttls: &expiring{}}
	r.ttls.update(s.store.Registry().Load())
	events := s.definition("Event")
	for i, age := range []time.Duration{time.Minute, -time.Hour, time.Hour, 100 * time.Hour} {
		name := fmt.Sprint(i)
		o, err := object.New(events.Key("n", name), resource.Tree{"metadata": resource.Tree{"name": name, "uid": name}}, 0, time.Now().Add(-age).Round(0))
		if err != nil {
			t.Fatal(err)
		}
		r.expire(o)
	}
	for _, timer := range r.timers.heap {
		if timer.at == timer.at.Round(0) {
			t.Errorf("the timer of %s has no monotonic time", timer.key)
		}
	}
	if len(r.timers.heap) != 4 {
		t.Errorf("%d timers", len(r.timers.heap))
	}
}

// TestNamespaceGraceWhenClocksJump checks that a namespace whose deletion timestamp is in the
// future is emptied after its grace.
func TestNamespaceGraceWhenClocksJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.reaper.Close()
		if err := s.delete(s.definition("Namespace"), "", "n", ""); err != nil {
			t.Fatal(err)
		}
		key := s.definition("Namespace").Key("", "n")
		o, _ := s.store.State().Get(key)
		tree, err := o.Tree()
		if err != nil {
			t.Fatal(err)
		}
		tree["metadata"].(resource.Tree)["deletionTimestamp"] = time.Now().Add(5 * time.Hour).UTC().Format(time.RFC3339)
		ahead, err := object.New(key, tree, o.Schema, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.State().Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Prev: o.Revision, Object: ahead}}}); err != nil {
			t.Fatal(err)
		}
		s.reaper = Start(context.Background(), s.store, Options{Logger: s.reaper.log, NamespaceGrace: 5 * time.Second})
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := s.namespace("n"); got != "Terminating" {
			t.Errorf("within its grace the namespace is:\n%s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := s.namespace("n"); got != "gone" {
			t.Errorf("after its grace the namespace is:\n%s", got)
		}
	})
}
