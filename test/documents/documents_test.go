package documents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A row is a sentence of the documents.
type row struct {
	id   string
	says string
	// but is what today's clients expect instead, or the reason why the sentence does not hold.
	but string
	// script is the file of test/kubectl with kubectl's output.
	script string
	show   func(*server)
}

// ids returns the numbers of all sentences about custom resources and clients, and about the API as
// far as it concerns custom resources.
func ids() []string {
	var ids []string
	for _, of := range []struct {
		letter string
		last   int
	}{{"D", 10}, {"C", 15}, {"V", 6}, {"N", 7}, {"T", 13}, {"A", 17}, {"L", 13}} {
		for i := 1; i <= of.last; i++ {
			ids = append(ids, fmt.Sprint(of.letter, i))
		}
	}
	// Except for these: versions of built-in kinds, subresources of pods, and sentences in
	// elsewheres.
	return slices.DeleteFunc(ids, func(id string) bool { return slices.Contains([]string{"A8", "A9", "A11", "L12"}, id) })
}

func TestDocuments(t *testing.T) {
	rows := slices.Concat(discovery(), definitions(), validation(), names(), subresources(), api(), clients())
	var have []string
	for _, r := range rows {
		have = append(have, r.id)
		t.Run(r.id, func(t *testing.T) {
			t.Log(r.says)
			if r.but != "" {
				t.Log("but:", r.but)
			}
			if r.script != "" {
				if _, err := os.Stat(filepath.Join("..", "kubectl", "testdata", "scripts", r.script)); err != nil {
					t.Error(err)
				}
			}
			r.show(start(t))
		})
	}
	want := ids()
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		t.Errorf("rows %v, want %v", have, want)
	}
}
