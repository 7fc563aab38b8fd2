package cache

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// A store does what a map does, its indices what a search of that does, and a snapshot stays as it
// was whatever follows.
func TestStoreLikeMap(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 4))
	s := newStore()
	s.indices = []*index{newIndex("one", nil), newIndex("two", nil)}
	model := map[string]*entry{}
	type past struct {
		*store
		model map[string]*entry
	}
	var pasts []past
	check := func(p past) {
		t.Helper()
		like := func(what string, found iter.Seq[*entry], match func(*entry) bool) {
			t.Helper()
			var want []*entry
			for _, e := range sorted(p.model) {
				if match(e) {
					want = append(want, e)
				}
			}
			if got := slices.Collect(found); !slices.Equal(got, want) {
				t.Fatalf("%s: got %d entries, want %d", what, len(got), len(want))
			}
		}
		for _, namespace := range []string{"", "a", "b", "none"} {
			in := func(e *entry) bool { return namespace == "" || e.namespace == namespace }
			like("all of "+namespace, p.all(namespace), in)
			for i := range 2 {
				for v := range 4 {
					value := fmt.Sprint(v)
					like(fmt.Sprintf("index %d at %s of %s", i, value, namespace), p.by(i, value, namespace),
						func(e *entry) bool { return in(e) && slices.Contains(e.values[i], value) })
				}
			}
		}
	}
	values := func() (all []string) {
		for range random.IntN(3) {
			all = append(all, fmt.Sprint(random.IntN(4)))
		}
		return compact(all)
	}
	for step := range 3000 {
		e := &entry{identity: identity{namespace: string(rune('a' + random.IntN(3))), name: fmt.Sprint(random.IntN(40))}}
		key := e.key().String()
		if random.IntN(3) == 0 {
			if s.remove(e) != model[key] {
				t.Fatal("another entry was removed")
			}
			delete(model, key)
		} else {
			e.values = [][]string{values(), values()}
			if s.put(e) != model[key] {
				t.Fatal("another entry was replaced")
			}
			model[key] = e
		}
		if s.get(e.key()) != model[key] {
			t.Fatal("another entry is there")
		}
		if step%100 == 0 {
			pasts = append(pasts, past{s.snapshot(), maps.Clone(model)})
		}
	}
	pasts = append(pasts, past{s, model})
	for _, p := range pasts {
		check(p)
	}
}

func sorted(model map[string]*entry) []*entry {
	return slices.SortedFunc(maps.Values(model), compareEntries)
}

// What is packed comes out as it went in, from many goroutines, before and after there is a
// dictionary.
func TestPacker(t *testing.T) {
	var p packer
	var running sync.WaitGroup
	for g := range 4 {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 5))
			var all []packed
			var want []string
			for i := range 1000 {
				b := make([]byte, random.IntN(20)) // which are not alike
				for i := range b {
					b[i] = byte(random.Uint32())
				}
				text := string(b)
				if i%2 == 0 {
					text += strings.Repeat("much alike, but not the same: ", 10+random.IntN(2000))
				}
				all, want = append(all, p.pack([]byte(text))), append(want, text)
			}
			size := 0
			for i, o := range all {
				size += len(o.data)
				if err := p.unpack(o, func(b []byte) error {
					if string(b) != want[i] {
						return fmt.Errorf("got %q, want %q", b, want[i])
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
			if raw := len(strings.Join(want, "")); size > raw/3 {
				t.Errorf("%d bytes are packed into %d", raw, size)
			}
		})
	}
	running.Wait()
}

// Nothing of what a reader gets is memory that the next reader uses.
func TestDecodedSharesNothing(t *testing.T) {
	for _, protobuf := range []bool{false, true} {
		k := &kind{gvk: corev1.SchemeGroupVersion.WithKind("ConfigMap"), scheme: scheme.Scheme, storage: Compact}
		var entries []*entry
		for i := range 200 {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i),
				ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: &metav1.FieldsV1{Raw: fmt.Appendf(nil, `{"f:%d":{}}`, i)}}}},
				BinaryData: map[string][]byte{"k": fmt.Append(nil, i)}}
			encoded, err := k.encode(o, protobuf)
			if err != nil {
				t.Fatal(err)
			}
			e, err := k.newEntry(encoded)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		var list corev1.ConfigMapList
		if err := k.decodeList(entries, &list, false); err != nil {
			t.Fatal(err)
		}
		for i, o := range list.Items {
			if o.Name != fmt.Sprint(i) || string(o.BinaryData["k"]) != o.Name || string(o.ManagedFields[0].FieldsV1.Raw) != `{"f:`+o.Name+`":{}}` {
				t.Errorf("got %v", o)
			}
		}
	}
}

// Reads of a cache that stores Go objects share them only if an option of the read or of the cache
// allows it.
func TestUnsafeDisableDeepCopyShares(t *testing.T) {
	k := &kind{storage: Decoded}
	kept := &corev1.ConfigMap{Data: map[string]string{"a": "1"}}
	e := &entry{object: kept}
	for _, tc := range []struct {
		kind   bool
		asked  *bool
		shared bool
	}{{false, nil, false}, {true, nil, true}, {false, new(true), true}, {true, new(false), false}} {
		k.shared = tc.kind
		var got corev1.ConfigMap
		if err := k.readInto(e, &got, k.shares(tc.asked)); err != nil || got.Data["a"] != "1" {
			t.Fatal(got, err)
		}
		got.Data["a"] = "2"
		if shared := kept.Data["a"] == "2"; shared != tc.shared {
			t.Errorf("%+v: shared is %v", tc, shared)
		}
		kept.Data["a"] = "1"
	}
}
