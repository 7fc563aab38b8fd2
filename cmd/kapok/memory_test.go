package main

import (
	"os"
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	const mb = 1 << 20
	for _, tc := range []struct {
		live              uint64
		starting, hurried bool
		want              int
	}{
		{0, false, false, 1600}, {4 * mb, false, false, 400}, {16 * mb, false, false, 100}, {32 * mb, false, false, 50}, {128 * mb, false, false, 12}, {10000 * mb, false, false, 12},
		{4 * mb, true, false, 400}, {128 * mb, true, false, 12}, {256 * mb, true, false, 12}, {257 * mb, true, false, 50}, {10000 * mb, true, false, 50},
		{4 * mb, false, true, 1600}, {32 * mb, false, true, 200}, {128 * mb, false, true, 100}, {512 * mb, false, true, 50}, {10000 * mb, false, true, 12},
	} {
		if got := garbagePercent(tc.live, tc.starting, tc.hurried); got != tc.want {
			t.Errorf("of %d MB, starting: %v, hurried: %v: %d %%, want %d %%", tc.live/mb, tc.starting, tc.hurried, got, tc.want)
		}
	}
}

// TestQuiet feeds it with what has been allocated at each look.
func TestQuiet(t *testing.T) {
	const mb = 1 << 20
	var s thrift
	for i, look := range []struct {
		allocated uint64
		want      bool
	}{
		{10 * mb, false},                  // busy
		{10*mb + aLittle, false},          // still
		{10*mb + aLittle + 1, true},       // no longer
		{10*mb + aLittle + 2, false},      // and nothing new to return
		{11*mb + aLittle, false},          // little happens,
		{12*mb + aLittle/2, false},        // and little,
		{12*mb + aLittle/2 + 1024, false}, // which is not worth it,
		{12*mb + aLittle + 1024, true},    // until it is
		{100 * mb, false},
		{100 * mb, true},
	} {
		if got := s.quiet(look.allocated); got != look.want {
			t.Errorf("look %d, at %d: %v, want %v", i, look.allocated, got, look.want)
		}
	}
}

// TestPace feeds it with the times between collections.
func TestPace(t *testing.T) {
	var s thrift
	now := time.Unix(1e9, 0)
	for i, step := range []struct {
		since time.Duration
		want  bool
	}{
		{time.Hour, false}, {time.Second, false},
		{tooSoon / 2, true}, {time.Second, true}, {calmAgain, true},
		{calmAgain + 1, false}, {tooSoon, false},
	} {
		now = now.Add(step.since)
		if s.paceLocked(now); s.hurried != step.want {
			t.Errorf("collection %d, after %v: hurried: %v, want %v", i, step.since, s.hurried, step.want)
		}
	}
}

func TestThriftPutsBack(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set")
	}
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	started, stop := beThrifty()
	started()
	stop()
	if now := debug.SetGCPercent(77); now != 77 {
		t.Errorf("GOGC is %d after it, was 77", now)
	}
}
