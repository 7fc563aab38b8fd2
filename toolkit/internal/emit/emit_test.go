package emit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// pieces are parts of texts that YAML may not write as they are.
var pieces = []string{
	"a", "word", "a longer word", "sentence with several words. ", "URL https://example.com/a?b=c#d", " ", "  ", "\n", "\n\n", ":", ": ", " #", "#", "-", "- ",
	"'", "\"", "|", ">", "?", "? ", "{", "}", "[", ",", "&", "*", "!", "%", "@", "`", "~", "0", "12", "1.5", "0x1f", "1e3", "1:30", "2001-01-01", "true", "no", "Null", "y", "=", "<<",
	"é", "世界", "…", "\u00a0", "\t", "\u0085", "\u2028", "😀", "\\", "...", "---", ".", "\r", "\x7f", "\ufeff", "Ⅳ",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(1 + r.IntN(30)) {
		// Most texts must be ordinary, so that the library does not get all.
		n := []int{6, 8, len(pieces)}[r.IntN(3)] // 8: with ends of lines
		b.WriteString(pieces[r.IntN(n)])
	}
	return b.String()
}

// randomKey returns a key that may end with a number: the library orders keys with letters after a
// number by chance.
func randomKey(r *rand.Rand) string {
	parts := []string{"a", "b", "Z", "name", "x-kubernetes-list", "-", "_", "/", ".", "$ref", "é", "yes", "veryLongNameOfAField"}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	if r.IntN(3) == 0 {
		fmt.Fprint(&b, r.IntN(120))
	}
	return b.String()
}

func randomTree(r *rand.Rand, depth int) any {
	switch kind := r.IntN(12); {
	case depth > 0 && kind < 4:
		return randomMap(r, depth-1)
	case depth > 0 && kind < 6:
		var all []any
		for range r.IntN(4) {
			all = append(all, randomTree(r, depth-1))
		}
		if all == nil {
			return []any{}
		}
		return all
	case kind == 6:
		return r.IntN(2) == 0
	case kind == 7:
		return nil
	case kind == 8:
		return json.Number([]string{"0", "-0", "1", "-12", "1.5", "1.0", "1e3", "1E+2", "1e-7", "0.00001", "9223372036854775807", "9223372036854775808", "18446744073709551616", "123456789012.5"}[r.IntN(14)])
	}
	return randomText(r)
}

func randomMap(r *rand.Rand, depth int) map[string]any {
	tree := map[string]any{}
	for range r.IntN(5) {
		tree[randomKey(r)] = randomTree(r, depth)
	}
	return tree
}

// TestYAML compares random trees with those that sigs.k8s.io/yaml writes. Most of them must not be
// left to it.
func TestYAML(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rounds = 2000
	written := 0
	for range rounds {
		tree := randomMap(r, 1+r.IntN(4))
		want, failed := yaml.Marshal(tree) // not for control characters
		got, err := YAML(tree)
		if !bytes.Equal(got, want) || (err == nil) != (failed == nil) {
			t.Fatalf("%s:\n%s\nwant\n%s", fmt.Sprintf("%#v", tree), got, want)
		}
		if (&emitter{}).mapping(tree, 0, false) == nil {
			written++
		}
	}
	if written < rounds/3 {
		t.Errorf("only %d of %d trees are written without the library", written, rounds)
	}
}
