package simulation

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/bits"
	"strings"
	"sync"
	"time"
)

// A seed decides what happens. Each decision has a name, and depends on the seed and that name
// only, so that it does not depend on the order of decisions.
type seed uint64

// of returns the seed of a part.
func (s seed) of(parts ...any) seed {
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(s)))
	fmt.Fprintln(h, parts...)
	// FNV gives similar hashes to similar names; this is the finalizer of SplitMix64.
	z := h.Sum64()
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return seed(z ^ z>>31)
}

// int returns a number in [0, below).
func (s seed) int(what string, n int) int {
	hi, _ := bits.Mul64(uint64(s.of(what)), uint64(n))
	return int(hi)
}

// float returns a number in [0, 1).
func (s seed) float(what string) float64 { return float64(s.of(what)>>11) / (1 << 53) }

// chance returns true with the probability odds.
func (s seed) chance(odds float64) bool { return s.float("chance") < odds }

// events records what happened to the machine and the network, for failed tests.
type events struct {
	begin time.Time

	mu    sync.Mutex
	lines []string
	total int
}

// kept is the number of events that are printed.
const kept = 100

func (e *events) add(format string, args ...any) {
	line := fmt.Sprintf("%12v  ", time.Since(e.begin)) + fmt.Sprintf(format, args...)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.total++; len(e.lines) == kept {
		e.lines = e.lines[1:]
	}
	e.lines = append(e.lines, line)
}

// String returns the last events.
func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprintf("the last %d of %d events:\n%s", len(e.lines), e.total, strings.Join(e.lines, "\n"))
}
