package pebble

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// opens counts what is decoded.
type opens struct {
	letters
	n *int
}

func (o opens) Open(key object.Key, stored []byte) ([]byte, bool, error) {
	*o.n++
	return o.letters.Open(key, stored)
}

// TestUndoDecodesEachKeyOnce goes back over many writes of few keys: what it decodes is what the
// keys held, and not what was written since.
func TestUndoDecodesEachKeyOnce(t *testing.T) {
	decoded := 0
	j, err := Open(Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet, Sealer: opens{letters{letter: "a"}, &decoded}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Recover(t.Context(), journaltest.NewTwin()); err != nil {
		t.Fatal(err)
	}
	const keys, rounds = 3, 100
	var head [keys]object.Revision
	for range rounds {
		for k := range keys {
			e := put(pods, fmt.Sprint(k), head[k], strings.Repeat("x", 1000))
			if head[k], err = j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	decoded = 0
	was := map[string]object.Revision{}
	if err := j.Undo(t.Context(), pods, keys, head[keys-1], func(key object.Key, o *object.Object) { was[key.Name] = o.Revision }); err != nil {
		t.Fatal(err)
	}
	if decoded != keys || len(was) != keys || was["0"] != 1 {
		t.Errorf("%d objects were decoded to put back %v", decoded, was)
	}
	ctx, cancel := context.WithCancel(t.Context())
	put := 0
	err = j.Undo(ctx, pods, 0, head[keys-1], func(object.Key, *object.Object) { put++; cancel() })
	if !errors.Is(err, context.Canceled) || put != 1 {
		t.Errorf("after its context had ended, %d keys were put back: %v", put, err)
	}
}
