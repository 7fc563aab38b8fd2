package manager_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"
)

// A leader whose requests hang has ended when another leads, though it has events to write, and something that does not end.
func TestLostWhileRequestsHang(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		var hangs atomic.Bool
		cfg := s.Config()
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if hangs.Load() {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return next.RoundTrip(r)
			})
		})
		opts := election()
		opts.Logger = silent()
		quit := make(chan struct{})
		first := newProcess(t, cfg, opts, func(m manager.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { <-quit; return nil }))
		})
		elected(t, first)
		second := newProcess(t, s.Config(), opts, nil)
		time.Sleep(time.Minute)
		first.GetEventRecorder("ctl").Eventf(configMap("a"), nil, "Normal", "Last", "Doing", "x")
		hangs.Store(true)
		var firstEnd, secondLeads time.Time
		var both sync.WaitGroup
		both.Go(func() { first.running.Wait(); firstEnd = time.Now() })
		both.Go(func() { elected(t, second); secondLeads = time.Now() })
		both.Wait()
		if firstEnd.After(secondLeads) || !errors.Is(first.err, manager.ErrLeaderElectionLost) {
			t.Errorf("the first ends %v after the second leads: %v", firstEnd.Sub(secondLeads), first.err)
		}
		close(quit)
		first.stop()
		if err := second.end(); err != nil {
			t.Error(err)
		}
	})
}

// A leader whose lease another has got ends when it sees that, at its next try.
func TestLeaseOfAnother(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "lead"}
	edit := func(change func(*coordinationv1.Lease)) func(*testing.T, client.Client) {
		return func(t *testing.T, c client.Client) {
			l := &coordinationv1.Lease{}
			if err := c.Get(t.Context(), key, l); err != nil {
				t.Fatal(err)
			}
			change(l)
			if err := c.Update(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		happen func(*testing.T, client.Client)
		loses  bool // in any case; else it may get the lease again before others do
	}{
		{"deleted", func(t *testing.T, c client.Client) {
			l := &coordinationv1.Lease{}
			l.Namespace, l.Name = key.Namespace, key.Name
			if err := c.Delete(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"without holder", edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }), false},
		{"another holder", edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("me") }), true},
		{"another holder without a duration", edit(func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("me"), nil
		}), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			losses := 0
			for n := range 4 { // at different moments between two tries
				bubble(t, func(t *testing.T, s *kapok.Server) {
					c, opts := newClient(t, s), election()
					opts.Logger = silent()
					first := newProcess(t, s.Config(), opts, nil)
					elected(t, first)
					second := newProcess(t, s.Config(), opts, nil)
					time.Sleep(time.Minute + time.Duration(n)*510*time.Millisecond)
					tc.happen(t, c)
					begin, other := time.Now(), time.Time{}
					var both sync.WaitGroup
					both.Go(func() {
						select {
						case <-second.Elected():
							other = time.Now()
						case <-time.After(time.Minute):
						}
					})
					ended := make(chan time.Time, 1)
					both.Go(func() {
						first.running.Wait()
						ended <- time.Now()
					})
					time.Sleep(61 * time.Second)
					select {
					case end := <-ended:
						losses++
						if d := end.Sub(begin); d > 4*time.Second {
							t.Errorf("try %d: the first ends after %v, the second leads after %v", n, d, other.Sub(begin))
						}
						if !errors.Is(first.err, manager.ErrLeaderElectionLost) {
							t.Error(first.err)
						}
					default:
						if tc.loses || !other.IsZero() {
							t.Error("the first leads for ever")
						}
					}
					first.stop()
					both.Wait()
					if err := second.end(); err != nil {
						t.Error(err)
					}
				})
			}
			if losses == 0 {
				t.Error("the lease was never lost")
			}
		})
	}
}
