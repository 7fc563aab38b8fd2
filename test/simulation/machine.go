package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/server"
)

// A machine runs servers, one after the other, on one disk.
type machine struct {
	seed    seed
	options kapok.Options
	network *network
	disk    *disk
	log     *events
	server  *kapok.Server // nil while none runs
	lives   int           // number of servers so far
	crashes int
	lasts   time.Duration // how long faults occur
	calm    time.Time     // the end of all faults
}

const (
	memTable = 32 << 10 // small, so that a short life has flushes and compactions of the store
	reserve  = 8 << 20  // for deletions on a full disk
)

// start starts a server, with as many attempts as needed, and connects it to the network.
func (m *machine) start(ctx context.Context, crashed <-chan *disk) error {
	for {
		m.lives++
		disk := server.Journals{Pebble: pebble.Options{FS: m.disk, MemTableBytes: memTable, ReserveBytes: reserve}}
		running, err := server.StartOn(context.WithoutCancel(ctx), server.Options(m.options), disk)
		if err == nil {
			m.server = (*kapok.Server)(running)
			m.network.serve(running.Config().Transport.(interface {
				DialContext(context.Context, string, string) (net.Conn, error)
			}).DialContext)
			m.log.add("machine: server %d started", m.lives)
			return nil
		}
		m.log.add("machine: server %d did not start: %v", m.lives, err)
		if damage := (*journal.DamagedError)(nil); errors.As(err, &damage) {
			return fmt.Errorf("the journal reports damaged files: %w", err)
		}
		select {
		case next := <-crashed:
			m.replace(next)
		default:
			if time.Now().After(m.calm) {
				return fmt.Errorf("the server does not start, although all faults have ended: %w", err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (m *machine) replace(next *disk) {
	m.crashes++
	m.disk = next
}

// stop stops the server, at once or with a grace. It ignores errors caused by the failed disk.
func (m *machine) stop(patience context.Context) {
	if m.server == nil {
		return
	}
	if err := m.server.Shutdown(patience); err != nil {
		m.log.add("machine: server stopped: %v", err)
	}
	m.server = nil
}

// disturb is a nemesis: it crashes, kills and stops servers, and starts new ones.
func (m *machine) disturb(ctx context.Context, _ *rand.Rand) error {
	begin := time.Now()
	m.calm = begin.Add(m.lasts)
	m.disk.faults.begin.Store(&begin)
	m.network.rough(m.lasts)
	for ctx.Err() == nil {
		if err := m.live(ctx); err != nil {
			return err
		}
	}
	return nil
}

// live runs a server until its end.
func (m *machine) live(ctx context.Context) error {
	s := m.seed.of("life", m.lives)
	crashed := make(chan *disk, 1)
	power := s.int("power", 3) == 0
	crash := func(next *disk) {
		m.network.cut()
		crashed <- next
	}
	changes, lasts := 0, time.Duration(s.int("lasts", int(time.Second)))
	if s.int("sudden", 2) == 0 {
		changes = 1 + s.int("changes", 1<<s.int("order", 11))
	}
	m.disk.arm(changes, power, crash)
	ending := time.NewTimer(lasts)
	defer ending.Stop()
	select {
	case <-ctx.Done():
		m.disk.arm(0, false, nil)
		select {
		case next := <-crashed: // just before
			return m.restart(ctx, next)
		default:
			return nil
		}
	case next := <-crashed:
		m.log.add("machine: crash with a change, power %v", power)
		return m.restart(ctx, next)
	case <-ending.C:
	}
	if s.int("gracefully", 3) == 0 {
		m.disk.arm(0, false, nil)
		patience, cancel := context.WithTimeout(ctx, time.Duration(s.int("patience", int(time.Second))))
		defer cancel()
		m.log.add("machine: server is stopped")
		m.network.serve(nil)
		m.stop(patience)
		return m.start(ctx, nil)
	}
	m.disk.crash(power)
	m.log.add("machine: crash, power %v", power)
	return m.restart(ctx, <-crashed)
}

// restart closes the server of a crashed machine, which has no effect any more, and starts another.
func (m *machine) restart(ctx context.Context, next *disk) error {
	now, cancel := context.WithCancel(ctx)
	cancel()
	m.stop(now)
	m.replace(next)
	// It may crash again before it serves.
	crashed := make(chan *disk, 1)
	s := m.seed.of("restart", m.lives)
	if s.int("again", 4) == 0 && time.Now().Before(m.calm) {
		m.disk.arm(1+s.int("changes", 100), s.int("power", 3) == 0, func(next *disk) {
			m.network.cut()
			crashed <- next
		})
	}
	if err := m.start(ctx, crashed); err != nil {
		return err
	}
	m.disk.arm(0, false, nil)
	select {
	case next := <-crashed: // it has started nevertheless
		return m.restart(ctx, next)
	default:
		return nil
	}
}
