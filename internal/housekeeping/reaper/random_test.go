package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/test/seeds"
)

// A model is a simple garbage collector: owners by name, and a fixed point.
type model map[string][]string

// remove removes an object, and all whose owners are then gone.
func (m model) remove(name, policy string) {
	delete(m, name)
	if policy == "Orphan" {
		for child, owners := range m {
			m[child] = slices.DeleteFunc(owners, func(o string) bool { return o == name })
		}
	}
	for again := true; again; {
		again = false
		for child, owners := range m {
			left := slices.DeleteFunc(slices.Clone(owners), func(o string) bool { _, has := m[o]; return !has })
			switch {
			case len(left) == 0 && len(owners) > 0:
				delete(m, child)
				again = true
			case len(left) < len(owners):
				m[child] = left
			}
		}
	}
}

func (m model) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s %v\n", name, slices.Sorted(slices.Values(m[name])))
	}
	return b.String()
}

// actual returns the stored objects in the form of the model.
func (s *server) actual() model {
	m := model{}
	for _, d := range []string{"Root", "Item"} {
		def := s.served(d)
		for o := range s.store.State().Snapshot(def.GroupResource()).All("") {
			owners := []string{}
			for _, ref := range o.Meta.Owners {
				if ref.Kind == "Root" {
					owners = append(owners, "Root/"+ref.Name)
				} else {
					owners = append(owners, o.Key.Namespace+"/"+ref.Name)
				}
			}
			m[label(def, o.Key)] = owners
			if o.Meta.Deleting() {
				m[label(def, o.Key)] = append(owners, "deleting")
			}
		}
	}
	return m
}

// TestRandom compares random graphs of owners, including cycles, with the model.
func TestRandom(t *testing.T) {
	seed := seeds.Of(t)
	for round := range 30 {
		synctest.Test(t, func(t *testing.T) {
			testRandom(t, rand.New(rand.NewPCG(seed, uint64(round))))
		})
		if t.Failed() {
			return
		}
	}
}

func testRandom(t *testing.T, random *rand.Rand) {
	s := newServer(t)
	want := model{}
	var log []string
	next := 0
	for range 60 {
		restart := random.IntN(8) == 0
		if restart {
			s.reaper.Close()
			log = append(log, "stop")
		}
		names := slices.Sorted(maps.Keys(want))
		switch op := random.IntN(10); {
		case op < 6 || len(names) == 0:
			next++
			place := []string{"n", "m", "Root"}[random.IntN(3)]
			name := fmt.Sprintf("%s/%d", place, next)
			fields, owners := []string{name}, pick(random, names, place)
			for _, o := range owners {
				fields = append(fields, "owner="+o+blocking(random))
			}
			log = append(log, "create "+strings.Join(fields, " "))
			s.createLine(fields)
			want[name] = owners
		case op < 8:
			name := names[random.IntN(len(names))]
			d, ns, n := s.split(name)
			place, _, _ := strings.Cut(name, "/")
			owners := pick(random, names, place)
			var refs []string
			for _, o := range owners {
				refs = append(refs, jsonOf(s.reference(o+blocking(random))))
			}
			log = append(log, fmt.Sprintf("own %s %v", name, owners))
			if err := s.patch(d, ns, n, fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, strings.Join(refs, ","))); err != nil {
				t.Fatal(err)
			}
			want[name] = owners
		default:
			name := names[random.IntN(len(names))]
			policy := []string{"Foreground", "Background", "Orphan"}[random.IntN(3)]
			log = append(log, "delete "+name+" "+policy)
			d, ns, n := s.split(name)
			if err := s.delete(d, ns, n, policy); err != nil {
				t.Fatal(err)
			}
			want.remove(name, policy)
		}
		if restart {
			s.reaper = Start(context.Background(), s.store, Options{Logger: slog.New(slog.DiscardHandler)})
			log = append(log, "start")
		}
		synctest.Wait()
		if got := s.actual().String(); got != want.String() {
			t.Fatalf("after\n%s\ngot\n%s\nwant\n%s", strings.Join(log, "\n"), got, want)
		}
	}
}

// pick returns up to three owners that an object in a place can have.
func pick(random *rand.Rand, names []string, place string) []string {
	owners := []string{}
	for _, name := range names {
		if (strings.HasPrefix(name, place+"/") || strings.HasPrefix(name, "Root/")) && len(owners) < 3 && random.IntN(3) == 0 {
			owners = append(owners, name)
		}
	}
	return owners
}

func blocking(random *rand.Rand) string {
	if random.IntN(2) == 0 {
		return "!"
	}
	return ""
}
