package fairness

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/test/seeds"
)

// TestMemoryFollowsTheLimitOfTheProcess checks that requests get a share of GOMEMLIMIT.
func TestMemoryFollowsTheLimitOfTheProcess(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for limit, want := range map[int64]int64{
		math.MaxInt64: 256 << 20, // none
		4 << 30:       1 << 30,
		512 << 20:     128 << 20,
		400 << 20:     128 << 20,
	} {
		debug.SetMemoryLimit(limit)
		if got := DefaultMemory(); got != want {
			t.Errorf("with a limit of %d bytes: %d, want %d", limit, got, want)
		}
	}
}

// TestMemoryGrow checks that a request can grow beyond half of the memory as long as it is the only
// one of its user.
func TestMemoryGrow(t *testing.T) {
	m := NewMemory(100)
	if !m.Grow("a", 0, 40) || !m.Grow("a", 40, 30) {
		t.Error("the only request of a user cannot grow beyond half")
	}
	if m.Grow("a", 70, 31) {
		t.Error("a request has grown beyond the total")
	}
	m.Release("a", 40) // a has 30
	if !m.Try("a", 10) || !m.Grow("a", 10, 10) || m.Grow("a", 20, 1) {
		t.Error("two requests of a user cannot get exactly half together")
	}
	m.Release("a", 50)
	if m.Used() != 0 {
		t.Errorf("%d bytes are in use at the end", m.Used())
	}
}

// TestMemoryGrowLeavesSome checks that users who take as much as they can, one after another, each
// get half of what the earlier ones have left.
func TestMemoryGrowLeavesSome(t *testing.T) {
	m := NewMemory(1 << 10)
	for i := range 8 {
		user := fmt.Sprint(i)
		held := int64(0)
		for m.Grow(user, 0, 1) {
			held++
		}
		if want := int64(512 >> i); held != want {
			t.Errorf("user %d holds %d, want %d", i, held, want)
		}
	}
}

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(100)
		var order []string
		var mu sync.Mutex
		reserve := func(user string, bytes int64) {
			go func() {
				ok := m.Reserve(t.Context(), user, bytes, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprintf("%s%d%t", user, bytes, ok))
			}()
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(order) // goroutines that wake at the same instant run in any order
			if !slices.Equal(order, want) {
				t.Errorf("%v, want %v", order, want)
			}
			order = nil
		}
		reserve("a", 101)
		expect("a101false") // more than the total
		reserve("a", 80)
		expect("a80true") // a single request may have more than half
		reserve("a", 10)
		reserve("b", 30)
		reserve("b", 10)
		expect() // b30 does not fit, and b10 must not overtake it
		reserve("c", 5)
		expect() // neither must c5
		m.Release("a", 80)
		expect("a10true", "b10true", "b30true", "c5true")
		reserve("b", 20)
		expect() // b would have more than half
		m.Release("c", 5)
		expect()
		time.Sleep(2 * time.Minute) // in virtual time
		expect("b20false")
		if m.Try("b", 11) || !m.Try("b", 10) || m.Try("a", 41) || !m.Try("a", 40) || m.Try("d", 1) {
			t.Error("Try does not observe the limits")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if m.Reserve(ctx, "d", 1, time.Minute) {
			t.Error("reserved memory for a cancelled request")
		}
		if m.Used() != 100 || len(m.waiting) != 0 {
			t.Errorf("%d bytes in use, %d requests waiting", m.Used(), len(m.waiting))
		}
	})
}

// TestMemoryRandom runs random requests of several users, and checks that the limits hold at all
// times and that all requests are served.
func TestMemoryRandom(t *testing.T) {
	seed := seeds.Of(t)
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(1000)
		var all sync.WaitGroup
		random := rand.New(rand.NewPCG(seed, 0))
		for range 300 {
			user, bytes := fmt.Sprint(random.IntN(5)), int64(random.IntN(400)+1)
			begin, length := time.Duration(random.IntN(1000)), time.Duration(random.IntN(100))
			all.Go(func() {
				time.Sleep(begin)
				if !m.Reserve(t.Context(), user, bytes, time.Hour) {
					t.Error("not served")
					return
				}
				m.mu.Lock()
				if m.used > m.total || m.users[user] > m.total/2 && m.users[user] != bytes {
					t.Errorf("%d bytes are in use, %d by one user", m.used, m.users[user])
				}
				m.mu.Unlock()
				time.Sleep(length)
				m.Release(user, bytes)
			})
		}
		all.Wait()
		if m.Used() != 0 || len(m.users) != 0 {
			t.Errorf("%d bytes are in use at the end, by %v", m.used, m.users)
		}
	})
}
