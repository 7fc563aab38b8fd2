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
// live long and contain no pointers: a collection is cheap, and can start before
// there is as much garbage as live memory, which is Go's default. Memory that a
// burst of requests has used is returned to the operating system after the burst.
//
// It looks after each collection, and every few seconds. Where GOGC is set there is
// none.
type thrift struct {
	previous int // GOGC before

	mu       sync.Mutex
	starting bool
	stopped  bool
	percent  int       // GOGC
	hurried  bool      // collections follow each other too fast
	last     time.Time // of the last collection
	seen     uint64    // bytes allocated so far, when it looked last
	returned uint64    // the same, when memory was returned
	timer    *time.Timer
}

const (
	// Garbage may take littleGarbage, or a garbagePart of what lives if that is more.
	littleGarbage = 16 << 20
	garbagePart   = 8
	// While a server reads back its objects, collections find all of them alive:
	// beyond manyObjects, garbage may take half as much then.
	manyObjects = 256 << 20
	// Under a burst of requests, littleGarbage is allocated every few milliseconds, and requests wait
	// for collections. After a collection that follows the last within tooSoon, garbage may take as
	// much as what lives, which is Go's default, but at least burstGarbage and at most mostGarbage,
	// until a collection comes after more than calmAgain. With a scheduler or controllers, what lives
	// has many pointers, and a collection takes as long as the requests between two of them.
	burstGarbage = 64 << 20
	mostGarbage  = 256 << 20
	tooSoon      = 200 * time.Millisecond
	calmAgain    = 2 * time.Second

	// Memory is returned in a lookEvery in which less than aLittle was allocated, if
	// that was worthReturning since it was returned last.
	lookEvery      = 4 * time.Second
	aLittle        = 1 << 20
	worthReturning = 2 << 20
)

// beThrifty begins with it. started is to be called once the server serves, and
// stop in the end.
func beThrifty() (started, stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}, func() {}
	}
	t := &thrift{starting: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	live, _ := heap()
	t.percent = garbagePercent(live, true, false)
	t.previous = debug.SetGCPercent(t.percent)
	t.timer = time.AfterFunc(lookEvery, t.look)
	t.awaitCollection()
	return t.started, t.stop
}

func (t *thrift) started() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting = false
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
	live, _ := heap()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.paceLocked(time.Now())
	// To set it stops the program for a moment: not for every little change.
	if percent := garbagePercent(live, t.starting, t.hurried); 10*percent > 11*t.percent || 11*percent < 10*t.percent {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	t.awaitCollection()
}

// paceLocked notes a collection.
func (t *thrift) paceLocked(now time.Time) {
	switch since := now.Sub(t.last); {
	case since < tooSoon:
		t.hurried = true
	case since > calmAgain:
		t.hurried = false
	}
	t.last = now
}

// garbagePercent returns the value for debug.SetGCPercent: the garbage at which the next collection
// starts, in percent of the live heap.
func garbagePercent(live uint64, starting, hurried bool) int {
	live = max(live, 1<<20)
	garbage := max(live/garbagePart, littleGarbage)
	if starting && live > manyObjects {
		garbage = live / 2
	}
	if hurried {
		garbage = max(garbage, burstGarbage, min(live, mostGarbage))
	}
	return int(100 * garbage / live)
}

// look returns memory where the process has become quiet.
func (t *thrift) look() {
	_, allocated := heap()
	if t.quiet(allocated) {
		debug.FreeOSMemory()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.timer.Reset(lookEvery)
	}
}

// quiet reports whether memory is to be returned to the operating system, given the bytes allocated
// so far.
func (t *thrift) quiet(allocated uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	quiet := allocated-t.seen < aLittle && allocated-t.returned >= worthReturning
	t.seen = allocated
	if quiet {
		t.returned = allocated
	}
	return quiet
}

// heap returns the bytes that lived at the last collection, and those that have
// been allocated in all.
func heap() (live, allocated uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}
