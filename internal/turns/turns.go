// Package turns lets few goroutines at a time compute, of hundreds that could, so that small
// requests do not wait for all of them: Go's scheduler runs goroutines in the order in which they
// become ready, for up to 10 ms each.
//
// A Turns is safe for concurrent use, and starts no goroutine.
package turns

import "runtime"

// Turns limits the number of goroutines that compute at a time. The others wait in the order of
// arrival. A goroutine that has a turn must not wait for anything: a client, a disk, a lock that is
// held for long.
type Turns chan struct{}

// New returns turns for a number of goroutines for each processor.
func New(perProcessor int) Turns {
	return make(Turns, perProcessor*runtime.GOMAXPROCS(0))
}

// Take waits for a turn, and then lets all goroutines run that are ready. Without that, a goroutine
// that gives its turn back would be followed by the one that has waited for it, before all others,
// and they all would run like one.
func (t Turns) Take() {
	t <- struct{}{}
	runtime.Gosched()
}

// Give gives a turn back.
func (t Turns) Give() { <-t }
