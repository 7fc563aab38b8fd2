package schema

import (
	"flag"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"
)

var schemas = flag.Int("schemas", 600, "number of random schemas")

// TestRandom compares programs with Kubernetes on random schemas and objects.
func TestRandom(t *testing.T) {
	first := seeds.Of(t)
	refused := 0
	for i := range *schemas {
		seed := first + uint64(i)
		if !tryRandom(t, seed, 8) {
			refused++
		}
		if t.Failed() {
			t.Fatalf("repeat with: KAPOK_SEED=%d go test -run '^TestRandom$' -schemas 1", seed)
		}
	}
	if refused > *schemas/2 {
		t.Errorf("%d of %d schemas were rejected: nothing is tested", refused, *schemas)
	}
}

// tryRandom compares program and judge of one schema on a few objects. It returns false if both
// reject the schema.
func tryRandom(t *testing.T, seed uint64, objects int) bool {
	g := newGenerator(seed)
	s := g.root()
	preserve := g.chance(5)
	p, err := Compile(s, preserve)
	j, judgeErr := newJudge(t, s, preserve)
	if (err == nil) != (judgeErr == nil) {
		t.Errorf("compile\n got %v\nwant %v\nschema %s", err, judgeErr, toJSON(s))
		return true
	}
	if err != nil {
		return false
	}
	for range objects {
		obj, old := g.resource(s), g.resource(s)
		if g.chance(50) {
			old = clone(obj).(map[string]any)
			if spec, ok := old["spec"].(map[string]any); ok {
				spec["a"] = g.anything(1)
			}
		}
		if err := compare(p, j, obj, old); err != nil {
			t.Errorf("seed %d: %v\nschema %s\nobject %s\nold    %s", seed, err, toJSON(s), toJSON(obj), toJSON(old))
			return true
		}
	}
	return true
}

// TestRandomRules compares programs with Kubernetes on random schemas where only rules can be
// violated, and on updates of all kinds.
func TestRandomRules(t *testing.T) {
	first := seeds.Of(t)
	for i := range *schemas / 6 {
		seed := first + uint64(i)
		tryRandomRules(t, seed, 6)
		if t.Failed() {
			t.Fatalf("repeat with: KAPOK_SEED=%d go test -run TestRandomRules -schemas 6", seed)
		}
	}
}

func tryRandomRules(t *testing.T, seed uint64, objects int) {
	g := newGenerator(seed)
	g.rules, g.calm = 40, true
	s := g.root()
	p := mustCompile(t, s)
	j, err := newJudge(t, s, false)
	if err != nil {
		t.Fatal(err)
	}
	for range objects {
		obj := g.resource(s)
		old := clone(obj).(map[string]any)
		switch {
		case g.chance(20):
			old = g.resource(s)
		case g.chance(50):
			g.damage(old)
		}
		if err := compare(p, j, obj, old); err != nil {
			t.Errorf("seed %d: %v\nschema %s\nobject %s\nold    %s", seed, err, toJSON(s), toJSON(obj), toJSON(old))
			return
		}
	}
}

// TestExamples compares programs with Kubernetes on the examples, unchanged and with random damage.
func TestExamples(t *testing.T) {
	first := seeds.Of(t)
	for _, e := range loadExamples(t) {
		t.Run(e.name, func(t *testing.T) {
			p := mustCompile(t, e.Schema)
			j, err := newJudge(t, e.Schema, false)
			if err != nil {
				t.Fatal(err)
			}
			g := newGenerator(first)
			for i := range 200 {
				obj := clone(e.Objects[i%len(e.Objects)]).(map[string]any)
				old := clone(obj).(map[string]any)
				if i >= len(e.Objects) {
					for range 1 + g.IntN(3) {
						g.damage(obj)
						g.damage(old)
					}
				}
				if err := compare(p, j, obj, old); err != nil {
					t.Fatalf("%v\nobject %s\nold    %s", err, toJSON(obj), toJSON(old))
				}
			}
		})
	}
}
