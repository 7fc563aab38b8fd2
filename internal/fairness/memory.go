package fairness

import (
	"context"
	"math"
	"runtime/debug"
	"sync"
	"time"
)

// Memory limits the number of bytes that requests hold at a time. A user gets at most half of them,
// unless a single request needs more.
//
// Requests that do not fit wait. Of these, the next one to be granted is that of the user who holds
// the fewest bytes, in order of arrival among equals. Smaller requests do not overtake it, so that
// large ones do not starve; but requests that exceed their user's half are skipped. A Memory is
// safe for concurrent use. It holds its lock while it scans the waiting requests, and calls no
// other package meanwhile.
type Memory struct {
	total int64

	mu      sync.Mutex
	used    int64
	users   map[string]int64 // bytes that the requests of a user hold
	waiting []*claim         // in order of arrival
}

// A claim is a request that waits for memory.
type claim struct {
	user    string
	bytes   int64
	granted chan struct{} // closed when the bytes are reserved for the request
}

const (
	// leastMemory is enough for the largest request of ordinary shape.
	leastMemory = 128 << 20
	// defaultMemory applies if the process has no memory limit.
	defaultMemory = 256 << 20
)

// DefaultMemory returns the number of bytes that requests may hold: a quarter of the memory limit
// of the process (GOMEMLIMIT), but at least 128 MiB; 256 MiB if there is no limit.
func DefaultMemory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return max(limit/4, leastMemory)
	}
	return defaultMemory
}

// NewMemory returns a Memory of total bytes.
func NewMemory(total int64) *Memory {
	return &Memory{total: total, users: map[string]int64{}}
}

// Total returns the maximum number of bytes of one request.
func (m *Memory) Total() int64 { return m.total }

// Used returns the number of bytes that requests hold.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Try reserves bytes for a user if that is possible without waiting, and no other request waits.
func (m *Memory) Try(user string, bytes int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) > 0 || !m.fitsLocked(user, bytes) {
		return false
	}
	m.takeLocked(user, bytes)
	return true
}

// Grow reserves more bytes for a request that already holds some, without waiting. Unlike Try, it
// overtakes waiting requests, because they may wait for what the request holds. A user with
// other requests gets at most half of what other users leave, so that a few users cannot take all
// memory; a user's only request may get more.
func (m *Memory) Grow(user string, holds, more int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.users[user]
	if m.used+more > m.total || held > holds && held+more > (m.total-m.used+held)/2 || holds == 0 && len(m.waiting) > 0 {
		return false
	}
	m.takeLocked(user, more)
	return true
}

// Reserve reserves bytes for a user, and waits until that is possible. It returns false if bytes
// exceeds Total, after patience, or when ctx is done.
func (m *Memory) Reserve(ctx context.Context, user string, bytes int64, patience time.Duration) bool {
	if bytes > m.total {
		return false
	}
	m.mu.Lock()
	if len(m.waiting) == 0 && m.fitsLocked(user, bytes) {
		m.takeLocked(user, bytes)
		m.mu.Unlock()
		return true
	}
	c := &claim{user, bytes, make(chan struct{})}
	m.waiting = append(m.waiting, c)
	m.grantLocked()
	m.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.granted:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return !m.withdraw(c)
}

// withdraw removes a waiting claim. It returns false if the claim has been granted in the meantime.
func (m *Memory) withdraw(c *claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, w := range m.waiting {
		if w == c {
			m.waiting = append(m.waiting[:i], m.waiting[i+1:]...)
			m.grantLocked() // the next one may fit
			return true
		}
	}
	return false
}

// Release returns bytes that a request of the user held.
func (m *Memory) Release(user string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= bytes
	if m.users[user] -= bytes; m.users[user] <= 0 {
		delete(m.users, user)
	}
	m.grantLocked()
}

// fitsLocked reports whether a user may get that many more bytes.
func (m *Memory) fitsLocked(user string, bytes int64) bool {
	held := m.users[user]
	return m.used+bytes <= m.total && (held == 0 || held+bytes <= m.total/2)
}

func (m *Memory) takeLocked(user string, bytes int64) {
	m.used += bytes
	m.users[user] += bytes
}

// grantLocked grants waiting claims until the next one does not fit.
func (m *Memory) grantLocked() {
	for {
		next := -1
		for i, c := range m.waiting {
			held := m.users[c.user]
			if held > 0 && held+c.bytes > m.total/2 {
				continue // waits for other requests of its user
			}
			if next < 0 || held < m.users[m.waiting[next].user] {
				next = i
			}
		}
		if next < 0 || !m.fitsLocked(m.waiting[next].user, m.waiting[next].bytes) {
			return
		}
		c := m.waiting[next]
		m.waiting = append(m.waiting[:next], m.waiting[next+1:]...)
		m.takeLocked(c.user, c.bytes)
		close(c.granted)
	}
}
