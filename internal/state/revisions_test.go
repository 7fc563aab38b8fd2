package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRevisions: the writes of one object, among those of others, newest first, from any of them
// on; and what remains of them after a compaction.
func TestRevisions(t *testing.T) {
	for name, open := range map[string]func() (journal.Journal, error){
		"memory": func() (journal.Journal, error) { return memory.New(), nil },
		"pebble": func() (journal.Journal, error) {
			return pebble.Open(pebble.Options{Dir: "journal", FS: vfs.NewMem()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := open()
			if err != nil {
				t.Fatal(err)
			}
			g := openCompactRig(t, j, Options{})
			key := object.Key{Resource: nodes, Name: "a"}
			revisions := func(upTo object.Revision) (all []string) {
				t.Helper()
				err := g.Revisions(t.Context(), key, upTo, func(e journal.Entry, err error) bool {
					if err != nil {
						t.Error(err)
					}
					all = append(all, fmt.Sprint(e.Revision, " ", e.Prev == 0, " ", e.Object == nil))
					return true
				})
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			is := func(got []string, want ...string) {
				t.Helper()
				if !slices.Equal(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			}
			is(revisions(0))
			var at []object.Revision
			for range 3 {
				at = append(at, g.write(nodes))
				g.write(pods)
			}
			deleted, err := g.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key, Prev: at[2]}}})
			if err != nil {
				t.Fatal(err)
			}
			all := []string{
				fmt.Sprint(deleted, " false true"), fmt.Sprint(at[2], " false false"),
				fmt.Sprint(at[1], " false false"), fmt.Sprint(at[0], " true false"),
			}
			is(revisions(0), all...)
			is(revisions(at[1]), all[2:]...)
			again := g.write(nodes)
			all = append([]string{fmt.Sprint(again, " true false")}, all...)
			is(revisions(0), all...)

			n := 0
			if err := g.Revisions(t.Context(), key, 0, func(journal.Entry, error) bool { n++; return n < 2 }); err != nil || n != 2 {
				t.Errorf("stopped after %d, %v", n, err)
			}

			if err := g.Compact(t.Context(), at[1]); err != nil {
				t.Fatal(err)
			}
			is(revisions(0), all[:4]...) // at[1] is what the first event replaced
			if err := g.Compact(t.Context(), g.Revision()); err != nil {
				t.Fatal(err)
			}
			left := revisions(0)
			if len(left) != 1 || left[0] != fmt.Sprint(again, " true false") && left[0] != fmt.Sprint(again, " false false") {
				t.Errorf("after a compaction: %q", left)
			}
		})
	}
}
