package manager_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestLostWhileRequestsHang checks that a leader whose requests hang has ended before another
// leads, even with pending events and a runnable that does not stop.
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

// TestLeaseOfAnother checks that a leader whose lease another process holds ends at its next
// renewal.
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
	for name, happen := range map[string]func(*testing.T, client.Client){
		"deleted, and made again": func(t *testing.T, c client.Client) {
			l := &coordinationv1.Lease{}
			l.Namespace, l.Name = key.Namespace, key.Name
			if err := c.Delete(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			l.ResourceVersion, l.UID = "", ""
			l.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("me"), LeaseDurationSeconds: new(int32(15))}
			if err := c.Create(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		},
		"another holder":                    edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("me") }),
		"another holder without a duration": edit(func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("me")} }),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *kapok.Server) {
				opts := election()
				opts.Logger = silent()
				p := newProcess(t, s.Config(), opts, nil)
				elected(t, p)
				time.Sleep(time.Minute + time.Second) // between two renewals
				happen(t, newClient(t, s))
				begin := time.Now()
				p.running.Wait()
				if d := time.Since(begin); d > 3*time.Second || !errors.Is(p.err, manager.ErrLeaderElectionLost) {
					t.Errorf("after %v: %v", d, p.err)
				}
				p.stop()
			})
		})
	}
}

// TestShortLease checks that a leader that renews a short Lease keeps it, and that the Lease tells
// other candidates its whole duration.
func TestShortLease(t *testing.T) {
	for lease, seconds := range map[time.Duration]int32{time.Second: 1, 1500 * time.Millisecond: 2} {
		t.Run(lease.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *kapok.Server) {
				opts := election()
				opts.Logger = silent()
				opts.LeaseDuration, opts.RenewDeadline, opts.RetryPeriod = &lease, new(700*time.Millisecond), new(300*time.Millisecond)
				first := newProcess(t, s.Config(), opts, nil)
				elected(t, first)
				time.Sleep(100 * time.Millisecond)
				second := newProcess(t, s.Config(), opts, nil)
				time.Sleep(10 * time.Minute)
				l := &coordinationv1.Lease{}
				if err := newClient(t, s).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "lead"}, l); err != nil {
					t.Fatal(err)
				}
				if n := *l.Spec.LeaseTransitions; n != 0 {
					t.Errorf("the Lease has changed hands %d times", n)
				}
				if got := *l.Spec.LeaseDurationSeconds; got != seconds {
					t.Errorf("the Lease lasts %d seconds, want %d", got, seconds)
				}
				for _, p := range []*process{second, first} {
					if err := p.end(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
