package server

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// TestSealedBeforeAJump checks that an object with a write time in the future, from a clock that
// was ahead, counts as older than the configuration if it existed when the server started.
func TestSealedBeforeAJump(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		changed  time.Time
		revision object.Revision
		written  time.Time
		want     bool
	}{
		{changed: time.Time{}, revision: 10, written: now.Add(5 * time.Hour)},
		{changed: now, revision: 10, written: now.Add(5 * time.Hour).Round(0), want: true},
		{changed: now, revision: 10, written: now.Add(-time.Hour), want: true},
		{changed: now, revision: 11, written: now.Add(-time.Hour), want: true},
		{changed: now, revision: 11, written: now.Add(time.Hour)},
	} {
		o := &object.Object{Revision: test.revision, Written: test.written}
		if got := sealedBefore(test.changed, 10, o); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
