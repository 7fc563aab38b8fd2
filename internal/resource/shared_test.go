package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// anything is a model of a version whose objects may hold anything.
type anything struct {
	Model
	fingerprint uint64
}

func (a anything) Fingerprint() uint64                                               { return a.fingerprint }
func (anything) Normalise(obj Tree, _ *[]error) (Tree, error)                        { return obj, nil }
func (anything) Prune(obj Tree) (Tree, error)                                        { return obj, nil }
func (anything) Validate(_ context.Context, _, _ Tree, _ string) (_ field.ErrorList) { return nil }

// hooked is a definition of v1 and v2, of which v2 is stored, with a webhook.
func hooked(webhook func(context.Context, []Tree, *Version) ([]Tree, error)) *Definition {
	v1, v2 := &Version{Name: "v1", Model: anything{fingerprint: 1}}, &Version{Name: "v2", Model: anything{fingerprint: 1}}
	return &Definition{Group: "example.com", Plural: "foos", Kind: "Foo", Versions: []*Version{v2, v1}, Storage: v2, Webhook: webhook}
}

// changeVersions is the least that a webhook has to do.
func changeVersions(objs []Tree, to *Version) []Tree {
	for _, obj := range objs {
		obj["apiVersion"] = "example.com/" + to.Name
	}
	return objs
}

func stored(t testing.TB, d *Definition, revision int, spec string) *object.Object {
	t.Helper()
	o, err := object.New(d.Key("", fmt.Sprint("foo-", revision)), Tree{
		"apiVersion": "example.com/v2", "kind": "Foo", "metadata": Tree{"name": "foo", "uid": "u"}, "spec": spec,
	}, stamp(d.Storage), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	o.Revision = object.Revision(revision)
	return o
}

// TestSharedConversion checks that concurrent conversions of the same object share one call and its
// result.
func TestSharedConversion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		d := hooked(func(_ context.Context, objs []Tree, to *Version) ([]Tree, error) {
			calls++
			time.Sleep(time.Second)
			return changeVersions(objs, to), nil
		})
		o := stored(t, d, 1, "x")
		var s shared
		var wg sync.WaitGroup
		results := make([]*object.Object, 50)
		for n := range results {
			wg.Go(func() {
				var err error
				if results[n], err = s.convert(t.Context(), d, served(d, "v1"), o); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, r := range results {
			if r == nil || r != results[0] || r.Revision != 1 || !strings.Contains(string(r.Raw), `"example.com/v1"`) {
				t.Fatalf("got %v", r)
			}
		}
		if again, err := s.convert(t.Context(), d, served(d, "v1"), o); err != nil || again != results[0] {
			t.Errorf("later: %v, %v", again, err)
		}
		if same, err := s.convert(t.Context(), d, d.Storage, o); err != nil || same != o {
			t.Errorf("in the stored version: %v, %v", same, err)
		}
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestSharedFailure checks that all waiting callers get an error, unless the calling client has
// left, and that it is not cached.
func TestSharedFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		broken := errors.New("broken")
		d := hooked(func(ctx context.Context, objs []Tree, to *Version) ([]Tree, error) {
			calls++
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if calls == 2 {
				return nil, broken
			}
			return changeVersions(objs, to), nil
		})
		o := stored(t, d, 1, "x")
		var s shared
		ask := func(ctx context.Context) error {
			_, err := s.convert(ctx, d, served(d, "v1"), o)
			return err
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		first := make(chan error)
		go func() { first <- ask(impatient) }()
		synctest.Wait() // it has asked
		var wg sync.WaitGroup
		errs := make([]error, 10)
		for n := range errs {
			wg.Go(func() { errs[n] = ask(t.Context()) })
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the client that left: %v", err)
		}
		wg.Wait()
		for _, err := range errs {
			if !errors.Is(err, broken) {
				t.Errorf("a waiting client: %v", err)
			}
		}
		if err := ask(t.Context()); err != nil || calls != 3 {
			t.Errorf("later: %v after %d calls", err, calls)
		}
	})
}

// TestSharedBound: what is kept is bounded, and the oldest goes first.
func TestSharedBound(t *testing.T) {
	calls := 0
	d := hooked(func(_ context.Context, objs []Tree, to *Version) ([]Tree, error) {
		calls++
		return changeVersions(objs, to), nil
	})
	var s shared
	const objects = 20
	spec := strings.Repeat("x", sharedSize/10)
	ask := func(n int) {
		t.Helper()
		if _, err := s.convert(context.Background(), d, served(d, "v1"), stored(t, d, n, spec)); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= objects; n++ {
		ask(n)
	}
	if len(s.known) != len(s.recent) || len(s.known) != 9 || s.size > sharedSize {
		t.Errorf("%d known, %d listed, %d bytes", len(s.known), len(s.recent), s.size)
	}
	calls = 0
	ask(objects)
	if calls != 0 {
		t.Error("the newest was dropped")
	}
	if ask(1); calls != 1 {
		t.Error("the oldest was kept")
	}
}
