package manager_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/manager"
)

// election returns the options of a manager with leader election.
func election() manager.Options {
	return manager.Options{LeaderElection: true, LeaderElectionID: "lead", LeaderElectionNamespace: "default"}
}

// elected waits until a process leads, and returns how long that took.
func elected(t *testing.T, p *process) time.Duration {
	t.Helper()
	begin := time.Now()
	select {
	case <-p.Elected():
	case <-time.After(time.Hour):
		t.Fatal("it is never elected")
	}
	return time.Since(begin)
}

// A cut is a network that can be interrupted.
type cut struct{ context.Context }

// TestTakeover checks that a leader that stops releases its lease, and that one that is killed is
// replaced when its lease expires.
func TestTakeover(t *testing.T) {
	for _, tc := range []struct {
		name      string
		opts      manager.Options
		kill      bool
		from, to  time.Duration
		firstEnds error
	}{
		{name: "release", opts: election(), from: 0, to: 5500 * time.Millisecond}, // the first needs 1 s, and the second retries after 4.4 s at least
		{name: "keep", opts: func() manager.Options {
			o := election()
			o.LeaderElectionKeepOnCancel = true
			return o
		}(), from: 11 * time.Second, to: 25 * time.Second},
		{name: "killed", opts: election(), kill: true, from: 11 * time.Second, to: 25 * time.Second, firstEnds: manager.ErrLeaderElectionLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *kapok.Server) {
				var mu sync.Mutex
				leaders := map[string]bool{}
				lead := func(name string) func(manager.Manager) error {
					return func(m manager.Manager) error {
						return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
							mu.Lock()
							leaders[name] = true
							if len(leaders) > 1 {
								t.Error("two lead at the same time")
							}
							mu.Unlock()
							<-ctx.Done()
							time.Sleep(time.Second) // ending takes a while
							mu.Lock()
							delete(leaders, name)
							mu.Unlock()
							return nil
						}))
					}
				}
				cfg := s.Config()
				broken, breakIt := context.WithCancel(t.Context())
				cfg.Wrap(cut{broken}.wrap)
				opts := tc.opts
				opts.Logger = silent()
				first := newProcess(t, cfg, opts, lead("first"))
				if d := elected(t, first); d > 0 {
					t.Errorf("the first is elected after %v", d)
				}
				second := newProcess(t, s.Config(), tc.opts, lead("second"))
				time.Sleep(5 * time.Minute)
				select {
				case <-second.Elected():
					t.Error("the second is elected beside the first")
				default:
				}
				if tc.kill {
					breakIt()
				} else {
					first.stop()
				}
				if d := elected(t, second); d < tc.from || d > tc.to {
					t.Errorf("the second is elected after %v", d)
				}
				first.running.Wait()
				if !errors.Is(first.err, tc.firstEnds) {
					t.Errorf("the first ends with %v", first.err)
				}
				breakIt()
				if err := second.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
