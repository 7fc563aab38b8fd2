package shards_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager/shards"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	namespace = "default"
	group     = "work"
	keys      = 12
)

func key(i int) string { return "key-" + strconv.Itoa(i) }

// hold holds a key until release returns or ctx ends, and then removes its name, for as long as
// that may succeed.
func hold(ctx context.Context, c kubernetes.Interface, key, self string, release func(context.Context)) {
	write := func(ctx context.Context, holder string) error {
		patch := fmt.Appendf(nil, `{"data":{"holder":%q,"by":%q}}`, holder, self)
		_, err := c.CoreV1().ConfigMaps(namespace).Patch(ctx, key, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if write(ctx, self) != nil {
		// The outcome is unknown: the key may be held.
		if ctx.Err() == nil {
			pause(ctx, 10*time.Millisecond)
		}
	} else {
		release(ctx)
	}
	for {
		err := write(context.WithoutCancel(ctx), "")
		if err == nil || apierrors.IsConflict(err) || strings.Contains(err.Error(), "Lease could not be renewed") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// work returns the work of a member: it repeatedly holds its keys, each for the time that rest
// returns.
func work(self string, rest func() time.Duration) shards.Work {
	return func(ctx context.Context, cfg *restConfig, owns shards.Owns) error {
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		ended := make(chan struct{})
		n := 0
		for i := range keys {
			if !owns(key(i)) {
				continue
			}
			n++
			go func() {
				for ctx.Err() == nil {
					hold(ctx, c, key(i), self, func(ctx context.Context) {
						pause(ctx, rest())
						time.Sleep(rest()) // work does not end at once
					})
					pause(ctx, rest())
				}
				ended <- struct{}{}
			}()
		}
		<-ctx.Done()
		for range n {
			<-ended
		}
		return nil
	}
}

type restConfig = rest.Config

// A ledger judges a history of Leases and ConfigMaps. Its rules:
//
//   - A member writes only while a Lease names it as its holder.
//   - A member holds a key only if no other does. A hold ends when the member removes its name,
//     when its Lease is deleted, and when its Lease shows another set of members, since the member
//     has ended its work then.
//   - Only the member that holds a key removes its name from it.
type ledger struct {
	leases  map[string]lease  // by name
	holders map[string]string // by key
	// begun counts the holds by key, and moved those by another member than the last one.
	begun map[string]int
	moved int
	last  map[string]string
}

type lease struct{ holder, members string }

func newLedger() *ledger {
	return &ledger{leases: map[string]lease{}, holders: map[string]string{}, begun: map[string]int{}, last: map[string]string{}}
}

// apply judges an event, and returns what breaks a rule.
func (l *ledger) apply(e watch.Event) error {
	switch o := e.Object.(type) {
	case *coordinationv1.Lease:
		if o.Labels[shards.Label] != group {
			return nil
		}
		before := l.leases[o.Name]
		now := lease{*o.Spec.HolderIdentity, o.Annotations[shards.MembersAnnotation]}
		if e.Type == watch.Deleted {
			delete(l.leases, o.Name)
		} else {
			l.leases[o.Name] = now
		}
		if e.Type == watch.Deleted || before.members != now.members {
			for k, holder := range l.holders {
				if holder == now.holder {
					l.holders[k] = ""
				}
			}
		}
	case *corev1.ConfigMap:
		if e.Type != watch.Modified {
			return nil
		}
		by, holder, held := o.Data["by"], o.Data["holder"], l.holders[o.Name]
		if !l.member(by) {
			return fmt.Errorf("revision %s: %s writes %s without a Lease", o.ResourceVersion, by, o.Name)
		}
		switch {
		case holder != "" && held != "" && held != by:
			return fmt.Errorf("revision %s: %s takes %s, which %s holds", o.ResourceVersion, by, o.Name, held)
		case holder == "" && held != "" && held != by:
			return fmt.Errorf("revision %s: %s releases %s, which %s holds", o.ResourceVersion, by, o.Name, held)
		}
		if holder != "" && held == "" {
			l.begun[o.Name]++
			if l.last[o.Name] != by {
				l.moved++
			}
			l.last[o.Name] = by
		}
		l.holders[o.Name] = holder
	}
	return nil
}

// member reports whether a Lease names an identity as its holder.
func (l *ledger) member(identity string) bool {
	for _, o := range l.leases {
		if o.holder == identity {
			return true
		}
	}
	return false
}

// judge reads the history of the server behind c since the revision from, and judges it.
func judge(t *testing.T, c client.WithWatch, from string) *ledger {
	t.Helper()
	var events []watch.Event
	events = append(events, history(t, c, &coordinationv1.LeaseList{}, &coordinationv1.Lease{}, from)...)
	events = append(events, history(t, c, &corev1.ConfigMapList{}, &corev1.ConfigMap{}, from)...)
	slices.SortStableFunc(events, func(a, b watch.Event) int { return cmp.Compare(revision(a), revision(b)) })
	l := newLedger()
	for _, e := range events {
		if err := l.apply(e); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d events, %d holds of another member than the one before", len(events), l.moved)
	return l
}

// history returns the events of a kind since a revision, up to now. It creates an object of the
// kind, whose event marks the end.
func history(t *testing.T, c client.WithWatch, list client.ObjectList, marker client.Object, from string) (all []watch.Event) {
	t.Helper()
	marker.SetNamespace(namespace)
	marker.SetGenerateName("marker-")
	if err := c.Create(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(client.Object)
		if !ok {
			t.Fatalf("watch: %v", e.Object)
		}
		if o.GetUID() == marker.GetUID() {
			return all
		}
		all = append(all, e)
	}
	t.Fatal("the watch ended early")
	return nil
}

func revision(e watch.Event) int {
	n, _ := strconv.Atoi(e.Object.(metav1.Object).GetResourceVersion())
	return n
}

// TestLedger checks that the ledger finds what it is for.
func TestLedger(t *testing.T) {
	l := func(name, members string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{shards.Label: group}, Annotations: map[string]string{shards.MembersAnnotation: members}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("id-" + name)},
		}
	}
	write := func(by, holder string) watch.Event {
		return watch.Event{Type: watch.Modified, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "k"}, Data: map[string]string{"by": by, "holder": holder}}}
	}
	put := func(o *coordinationv1.Lease) watch.Event { return watch.Event{Type: watch.Added, Object: o} }
	gone := func(o *coordinationv1.Lease) watch.Event { return watch.Event{Type: watch.Deleted, Object: o} }
	members := []watch.Event{put(l("a", "a,b")), put(l("b", "a,b"))}
	for _, tc := range []struct {
		name   string
		events []watch.Event
		want   string
	}{
		{"one after the other", []watch.Event{write("id-a", "id-a"), write("id-a", ""), write("id-b", "id-b")}, ""},
		{"no member", []watch.Event{write("id-c", "id-c")}, "without a Lease"},
		{"two holders", []watch.Event{write("id-a", "id-a"), write("id-b", "id-b")}, "takes k, which id-a holds"},
		{"release by another", []watch.Event{write("id-a", "id-a"), write("id-b", "")}, "releases k, which id-a holds"},
		{"the holder is replaced", []watch.Event{write("id-a", "id-a"), gone(l("a", "a,b")), write("id-b", "id-b")}, ""},
		{"the replaced holder writes", []watch.Event{write("id-a", "id-a"), gone(l("a", "a,b")), write("id-b", "id-b"), write("id-a", "")}, "without a Lease"},
		{"the work of the holder has ended", []watch.Event{write("id-a", "id-a"), put(l("a", "a,b,c")), write("id-b", "id-b")}, ""},
		{"a renewal", []watch.Event{write("id-a", "id-a"), put(l("a", "a,b")), write("id-b", "id-b")}, "takes k"},
	} {
		ledger, got := newLedger(), ""
		for _, e := range append(slices.Clone(members), tc.events...) {
			if err := ledger.apply(e); err != nil {
				got += err.Error()
			}
		}
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
