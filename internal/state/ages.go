package state

import (
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// ages records when revisions were written, so that history can be dropped by age without a
// goroutine that watches the clock: expiry is computed on demand. Its resolution is 1/32 of the
// age.
type ages struct {
	spans []span // ascending by revision
}

// A span is a short period with writes.
type span struct {
	begin, end time.Time       // times of its first and its last write
	revision   object.Revision // its last revision
}

// record notes that all revisions up to the given one are written by now. With an age of 0 it does
// nothing.
func (a *ages) record(revision object.Revision, age time.Duration) {
	if age <= 0 {
		return
	}
	now := time.Now()
	if n := len(a.spans); n > 0 && now.Sub(a.spans[n-1].begin) < age/32 {
		a.spans[n-1].end, a.spans[n-1].revision = now, revision
		return
	}
	// An expired span covers all spans before it.
	for len(a.spans) > 1 && now.Sub(a.spans[1].end) >= age {
		a.spans = a.spans[1:]
	}
	a.spans = append(a.spans, span{now, now, revision})
}

// expired returns the newest revision for which it and all earlier ones were written at least age
// ago.
func (a *ages) expired(age time.Duration) object.Revision {
	for i := len(a.spans) - 1; i >= 0; i-- {
		if time.Since(a.spans[i].end) >= age {
			return a.spans[i].revision
		}
	}
	return 0
}
