package object

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/labels"
)

// TestSieve compares sieves with their selectors: objects that match pass, and most others do not.
func TestSieve(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	name := func() string { return one("app", "tier", "app.kubernetes.io/name", "hash") }
	value := func() string { return one("", "web", "db", "nginx", fmt.Sprint(random.IntN(50))) }
	term := func() string {
		return one(
			name()+"="+value(), name()+"=="+value(), name()+"!="+value(), name(), "!"+name(), name()+">3", name()+"<30",
			name()+" in ("+value()+","+value()+")", name()+" notin ("+value()+")")
	}
	passed, refused := 0, 0
	for range 4000 {
		has := map[string]any{}
		for range random.IntN(5) {
			has[name()] = value()
		}
		if random.IntN(20) == 0 {
			has["quoted"] = `"\`
		}
		text := term()
		for range random.IntN(3) {
			text += "," + term()
		}
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		l := labelsOf(has)
		switch passes := SieveOf(selector).Passes(l.Sketch()); {
		case selector.Matches(&l) && !passes:
			t.Fatalf("%s is held back by %s", l, selector)
		case passes:
			passed++
		default:
			refused++
		}
	}
	if refused < passed/4 {
		t.Errorf("%d passed, %d did not", passed, refused)
	}
	for _, selector := range []labels.Selector{nil, labels.Everything(), labels.Nothing()} {
		if s := SieveOf(selector); !s.Passes(0) {
			t.Errorf("%v holds back what has no labels", selector)
		}
	}
}

// TestSieveIsFine: few of the objects that have another value pass.
func TestSieveIsFine(t *testing.T) {
	selector, err := labels.Parse("shade=blue-7,app=bench")
	if err != nil {
		t.Fatal(err)
	}
	sieve := SieveOf(selector)
	for _, n := range []int{10, 100, 1000} {
		passed := 0
		for i := range n {
			l := labelsOf(map[string]any{"app": "bench", "tier": "front", "shade": fmt.Sprintf("blue-%d", i), "hash": fmt.Sprintf("%x", i*7919)})
			if sieve.Passes(l.Sketch()) {
				passed++
			}
		}
		if passed < 1 || passed > 1+n/20 {
			t.Errorf("%d of %d pass, one is wanted", passed, n)
		}
	}
}

func BenchmarkSketch(b *testing.B) {
	l := labelsOf(map[string]any{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-1", "pod-template-hash": "5d78c9869d"})
	b.ReportAllocs()
	for b.Loop() {
		if l.Sketch() == 0 {
			b.Fatal("no bits")
		}
	}
}
