package endpoint

import (
	"net/http"
	"time"
)

// Lists are rendered in a lane with one place for each processor; one user gets half of them. So a
// small request waits for few goroutines, however many lists are under way. A list gives its seats
// back while it waits for a place or for its client.

// waitingList is the memory, in bytes, that a list retains while it waits for the lane, besides its
// objects.
const waitingList = 16 << 10

// enterLane waits for a place to render a list with this number of objects. If too many lists wait,
// it responds with 429 and returns false.
func (c *call) enterLane(objects int) bool {
	if c.inLane = c.h.lane.Try(c.user.Name, 1); c.inLane {
		return true
	}
	c.keeps = waitingList + 8*int64(objects)
	if !c.readSlowly() && c.info.Verb == "list" { // the objects of a deletion are deleted by now
		c.tooMany()
		return false
	}
	c.awaitLane()
	return true
}

// enterLaneAgain waits for a place to continue a list. Without time or memory for that, it aborts
// the response.
func (c *call) enterLaneAgain() {
	if c.inLane = c.h.lane.Try(c.user.Name, 1); c.inLane {
		return
	}
	if !c.readSlowly() {
		panic(http.ErrAbortHandler)
	}
	c.awaitLane()
}

func (c *call) awaitLane() {
	left := time.Until(c.begun.Add(c.h.requests.Timeout))
	if c.inLane = c.h.lane.Reserve(c.r.Context(), c.user.Name, 1, left); !c.inLane {
		panic(http.ErrAbortHandler)
	}
}

// leaveLane releases the place, if the call has one, and reports whether it had.
func (c *call) leaveLane() bool {
	had := c.inLane
	if had {
		c.inLane = false
		c.h.lane.Release(c.user.Name, 1)
	}
	return had
}
