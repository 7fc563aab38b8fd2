package jsonpatch_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/object/jsonpatch"
	"github.com/kapok-dev/kapok/test/seeds"

	library "gopkg.in/evanphx/json-patch.v4"
)

// TestMergeLikeTheLibrary compares merge patches with the library.
func TestMergeLikeTheLibrary(t *testing.T) {
	compare := func(doc, patch string) {
		t.Helper()
		got := outcome(jsonpatch.Merge([]byte(doc), []byte(patch)))
		if want := outcome(library.MergePatch([]byte(doc), []byte(patch))); got != want {
			t.Fatalf("%s merged with %s\ngot  %s\nwant %s", doc, patch, got, want)
		}
	}
	for _, patch := range []string{``, `x`, `null`, `1`, `"a"`, `[]`, `[1,null,{"a":null,"b":[{"c":null}]}]`, `{"a":1,"a":2}`, `{"a":{"b":1}`, ` { } `} {
		compare(`{"a":{"b":null},"c":null}`, patch)
	}
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		compare(randomObject(r, 3), randomObject(r, 3))
	}
}
