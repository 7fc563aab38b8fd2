package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// thrift keeps the process small. Most of its heap are the bytes of objects, which
// live long and have no pointers in them: a collection is cheap, and may come before
// there is as much garbage as there are objects, which is when Go collects by
// default. And what a burst of requests has taken goes back to the operating
// system once it is over.
//
// It runs after each collection, and for some seconds then; an idle process is left
// alone. Where GOGC is set it does nothing.
type thrift struct {
	previous int // GOGC before

	mu       sync.Mutex
	percent  int
	seen     uint64 // bytes allocated so far, when the timer was set
	returned uint64 // the same, when memory was given back
	timer    *time.Timer
	stopped  bool
}

const (
	// Garbage may take as much memory as what lives, up to littleGarbage, and
	// from there on one garbagePart of what lives.
	littleGarbage = 16 << 20
	garbagePart   = 8

	// A process is quiet when it allocates less than aLittle in quietTime.
	quietTime = 2 * time.Second
	aLittle   = 1 << 20
	// Less than this is not worth a collection of its own.
	worthReturning = 4 << 20
)

// beThrifty begins with it, until stop is called.
func beThrifty() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	t := &thrift{percent: 100}
	t.previous = debug.SetGCPercent(t.percent)
	t.timer = time.AfterFunc(quietTime, t.lookAround)
	t.awaitCollection()
	return t.stop
}

func (t *thrift) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
	debug.SetGCPercent(t.previous)
}

// awaitCollection has collected called after the next collection.
func (t *thrift) awaitCollection() {
	sentinel := new([2]uint64) // garbage from now on
	runtime.AddCleanup(sentinel, func(t *thrift) { t.collected() }, t)
}

func (t *thrift) collected() {
	live, allocated := heap()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	// To set it stops the program for a moment: not for every little change.
	if percent := garbagePercent(live); 10*percent > 11*t.percent || 11*percent < 10*t.percent {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	t.seen = allocated
	t.timer.Reset(quietTime)
	t.awaitCollection()
}

// garbagePercent is how much garbage there may be, as a part of what lives.
func garbagePercent(live uint64) int {
	live = max(live, 1)
	garbage := max(live/garbagePart, min(live, littleGarbage))
	return int(100 * garbage / live)
}

// lookAround returns memory once the process is quiet.
func (t *thrift) lookAround() {
	_, allocated := heap()
	t.mu.Lock()
	quiet := allocated-t.seen < aLittle
	t.seen = allocated
	worth := quiet && !t.stopped && allocated-t.returned >= worthReturning
	if worth {
		t.returned = allocated
	}
	if !quiet && !t.stopped {
		t.timer.Reset(quietTime)
	}
	t.mu.Unlock()
	if worth {
		debug.FreeOSMemory()
	}
}

// heap returns the bytes that lived at the last collection, and those that have
// been allocated in all.
func heap() (live, allocated uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}
