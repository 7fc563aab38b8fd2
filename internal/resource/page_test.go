package resource

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestPages pages through random objects whose labels a webhook changes, and compares with a look
// at all of them. A page asks for no more objects than it may show, so that what is not asked for
// costs nothing.
func TestPages(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		limit, most := random.Int64N(6), 0
		d := hooked(func(_ context.Context, objs []Tree, to *Version) ([]Tree, error) {
			most = max(most, len(objs))
			for _, obj := range objs {
				if metaString(obj, "uid") == "wanted" {
					metadata(obj)["labels"] = Tree{"wanted": "yes"}
				}
			}
			return changeVersions(objs, to), nil
		})
		r := &Request{Definition: d, Version: served(d, "v1")}
		selector := labels.Everything()
		if random.IntN(2) == 0 {
			selector = labels.SelectorFromSet(labels.Set{"wanted": "yes"})
		}
		var all []*object.Object
		var want, got []object.Revision
		for n := range random.IntN(20) {
			o := stored(t, d, n+1, "x")
			tree, err := o.Tree()
			if err != nil {
				t.Fatal(err)
			}
			if random.IntN(3) == 0 {
				metadata(tree)["uid"] = "wanted"
			}
			if metaString(tree, "uid") == "wanted" || selector.Empty() {
				want = append(want, object.Revision(n+1))
			}
			if o, err = object.New(o.Key, tree, o.Schema, o.Written); err != nil {
				t.Fatal(err)
			}
			o.Revision = object.Revision(n + 1)
			all = append(all, o)
		}
		for rest := all; ; {
			sel, err := newSelection(r, selector, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := page{ctx: t.Context(), r: r, selection: sel, limit: limit}
			for _, o := range rest {
				if !p.add(o, true) {
					break
				}
			}
			if p.convert(); p.err != nil {
				t.Fatal(p.err)
			}
			if limit > 0 && int64(len(p.objects)) > limit {
				t.Fatalf("%d objects, limit %d", len(p.objects), limit)
			}
			for _, o := range p.objects {
				got = append(got, o.Revision)
				if !strings.Contains(string(o.Raw), "example.com/v1") {
					t.Fatalf("not converted: %s", o.Raw)
				}
			}
			if !p.more {
				break
			}
			at := slices.IndexFunc(rest, func(o *object.Object) bool { return o.Revision == p.last.Revision })
			rest = rest[at+1:]
			if selector.Empty() && p.rest != int64(len(rest)) {
				t.Fatalf("%d remain, not %d", len(rest), p.rest)
			}
		}
		if !slices.Equal(got, want) || limit > 0 && int64(most) > limit {
			t.Fatalf("limit %d: got %v, want %v; asked for %d at once", limit, got, want, most)
		}
	}
}

// TestLargeList: a call is for so many bytes, and an error ends the list.
func TestLargeList(t *testing.T) {
	var calls []int
	broken := errors.New("broken")
	d := hooked(func(_ context.Context, objs []Tree, to *Version) ([]Tree, error) {
		if calls = append(calls, len(objs)); len(calls) == 3 {
			return nil, broken
		}
		return changeVersions(objs, to), nil
	})
	r := &Request{Definition: d, Version: served(d, "v1")}
	p := page{ctx: t.Context(), r: r, selection: &selection{definition: d, version: r.Version}}
	added := 0
	for n := range 100 {
		if !p.add(stored(t, d, n+1, strings.Repeat("x", callSize/10)), true) {
			break
		}
		added++
	}
	if !slices.Equal(calls, []int{10, 10, 10}) || !errors.Is(p.err, broken) || added != 30 {
		t.Errorf("calls for %v objects of %d, error %v", calls, added, p.err)
	}
}

// served returns a version of the definition's own group.
func served(d *Definition, version string) *Version {
	return d.Version(schema.GroupVersion{Group: d.Group, Version: version})
}
