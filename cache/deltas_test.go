package cache

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcache "k8s.io/client-go/tools/cache"
)

// The queue gives the same deltas in the same order as client-go's DeltaFIFO, whatever comes in and
// goes out.
func TestDeltasLikeDeltaFIFO(t *testing.T) {
	first := seeds.Of(t)
	for i := range uint64(200) {
		seed := first + i
		random := rand.New(rand.NewPCG(seed, 3))
		theirStore := clientcache.NewStore(clientcache.MetaNamespaceKeyFunc)
		theirs := clientcache.NewDeltaFIFOWithOptions(clientcache.DeltaFIFOOptions{KnownObjects: theirStore, EmitDeltaTypeReplaced: true})
		ours, store := newDeltaQueue(), map[string]*entry{}
		known := func() iter.Seq[*entry] { return maps.Values(store) }

		var revision int
		make := func(name string) (*entry, *corev1.ConfigMap) {
			revision++
			rv := fmt.Sprint(revision)
			return &entry{identity: identity{name: name, revision: rv}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: rv}}
		}
		reached := 0
		pop := func() {
			pending := len(ours.order) > ours.head // client-go blocks if nothing is
			deltas, progress := ours.pop()
			for _, p := range progress {
				fmt.Sscan(p.revision, &reached)
			}
			got := ""
			for _, d := range deltas {
				got += fmt.Sprintf("%d %s %s %t;", d.deltaType, d.name, d.revision, d.unknown)
				if d.deltaType == deleted {
					delete(store, d.name)
				} else {
					store[d.name] = d.entry
				}
			}
			want := ""
			if pending {
				_, _ = theirs.Pop(func(obj any, _ bool) error {
					for _, d := range obj.(clientcache.Deltas) {
						o, unknown := d.Object, false
						if gone, ok := o.(clientcache.DeletedFinalStateUnknown); ok {
							o, unknown = gone.Obj, true
						}
						m := o.(*corev1.ConfigMap)
						kinds := []clientcache.DeltaType{clientcache.Added, clientcache.Updated, clientcache.Replaced, clientcache.Deleted}
						want += fmt.Sprintf("%d %s %s %t;", slices.Index(kinds, d.Type), m.Name, m.ResourceVersion, unknown)
						if d.Type == clientcache.Deleted {
							_ = theirStore.Delete(m)
						} else {
							_ = theirStore.Update(m)
						}
					}
					return nil
				})
			}
			if got != want {
				t.Fatalf("seed %d: got %s, want %s", seed, got, want)
			}
			// All pending changes are later than the reached revision.
			for _, p := range ours.order[ours.head:] {
				var first int
				fmt.Sscan(p.deltas[0].revision, &first)
				if !p.deltas[0].unknown && first <= reached {
					t.Fatalf("seed %d: %d is reached, and %d pending", seed, reached, first)
				}
			}
		}
		for range 100 {
			name := string(rune('a' + random.IntN(5)))
			switch random.IntN(8) {
			case 0, 1:
				e, o := make(name)
				ours.add(delta{deltaType: added, entry: e}, e.revision)
				_ = theirs.Add(o)
			case 2:
				e, o := make(name)
				ours.add(delta{deltaType: updated, entry: e}, e.revision)
				_ = theirs.Update(o)
			case 3:
				// Client-go takes no deletion of what it does not know.
				e, o := make(name)
				_, there := store[name]
				if _, pending := ours.pending[e.key()]; there || pending {
					ours.add(delta{deltaType: deleted, entry: e}, e.revision)
					_ = theirs.Delete(o)
				}
			case 4:
				var list []*entry
				var objects []any
				for _, n := range []string{"a", "b", "c", "d", "e"} {
					if random.IntN(4) > 0 {
						e, o := make(n)
						list, objects = append(list, e), append(objects, o)
					}
				}
				gone := 0
				for _, n := range []string{"a", "b", "c", "d", "e"} {
					e := &entry{identity: identity{name: n}}
					p := ours.pending[e.key()]
					there := store[n] != nil && p == nil || p != nil && p.deltas[len(p.deltas)-1].deltaType != deleted
					if there && !slices.ContainsFunc(list, func(e *entry) bool { return e.name == n }) {
						gone++
					}
				}
				if gone > 1 {
					continue // their order is undefined
				}
				rv := fmt.Sprint(revision)
				ours.replace(list, 0, rv, false, known())
				_ = theirs.Replace(objects, rv)
			default:
				pop()
			}
		}
		for len(ours.order) > ours.head {
			pop()
		}
	}
}
