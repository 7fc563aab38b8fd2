package doctor

import (
	"bytes"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
)

// Compare compares the state of a stopped store with its objects as read from its files in another
// way. read calls its argument once with each object. Differences are added to the report.
func Compare(r *Report, st *state.State, read func(func(*object.Object) error) error) error {
	e := examination{report: r}
	seen := map[object.Key]struct{}{}
	err := read(func(o *object.Object) error {
		seen[o.Key] = struct{}{}
		switch shown, _ := st.Get(o.Key); {
		case shown == nil:
			e.problem(o.Key, 0, "it is in the files at revision %d, but missing in the state of the server", o.Revision)
		case shown.Revision != o.Revision:
			e.problem(o.Key, 0, "it is in the files at revision %d, but at revision %d in the state of the server", o.Revision, shown.Revision)
		case !bytes.Equal(shown.Raw, o.Raw):
			e.problem(o.Key, o.Revision, "its content in the files differs from the state of the server")
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, tables := st.All()
	for _, table := range tables {
		for o := range table.All("") {
			if _, ok := seen[o.Key]; !ok {
				r.AddAll([]journal.Problem{{Key: o.Key, Revision: o.Revision, Text: "a server would show it, and the files do not hold it"}})
			}
		}
	}
	return nil
}
