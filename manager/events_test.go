package manager_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// eventsOf returns the events with a reason, as both APIs show them.
func eventsOf(t *testing.T, c client.Client, reason string) (core []corev1.Event, v1 []eventsv1.Event) {
	t.Helper()
	coreList, v1List := &corev1.EventList{}, &eventsv1.EventList{}
	if err := c.List(context.Background(), coreList); err != nil {
		t.Fatal(err)
	}
	if err := c.List(context.Background(), v1List); err != nil {
		t.Fatal(err)
	}
	for _, e := range coreList.Items {
		if e.Reason == reason {
			core = append(core, e)
		}
	}
	for _, e := range v1List.Items {
		if e.Reason == reason {
			v1 = append(v1, e)
		}
	}
	return core, v1
}

func TestEvents(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		c := newClient(t, s)
		about := configMap("a")
		if err := c.Create(t.Context(), about); err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, s.Config(), manager.Options{}, func(m manager.Manager) error {
			m.GetEventRecorderFor("ctl").Event(about, "Normal", "Early", "before the manager starts")
			return nil
		})
		<-p.Elected()
		core, v1 := p.GetEventRecorderFor("ctl"), p.GetEventRecorder("ctl")
		core.AnnotatedEventf(about, map[string]string{"k": "v"}, "Warning", "Core", "number %d", 1)
		core.Event(about, "Odd", "Refused", "the type is invalid")
		for i := range 5 {
			core.Eventf(about, "Normal", "Repeated", "again")
			v1.Eventf(about, nil, "Normal", "Series", "Doing", "number %d", i)
			time.Sleep(time.Second)
		}
		v1.AnnotatedEventf(about, about, map[string]string{"k": "v"}, "Warning", "V1", "Doing", "number %d", 1)
		v1.Eventf(about, nil, "Normal", "Last", "Doing", "just before the end")
		p.stop()
		p.running.Wait()
		core.Event(about, "Normal", "TooLate", "after the end")

		if events, _ := eventsOf(t, c, "Early"); len(events) != 1 {
			t.Errorf("of an early event there are %d", len(events))
		}
		if events, _ := eventsOf(t, c, "Core"); len(events) != 1 || events[0].Message != "number 1" || events[0].Annotations["k"] != "v" ||
			events[0].Type != "Warning" || events[0].InvolvedObject.UID != about.UID || events[0].Source.Component != "ctl" || events[0].Count != 1 {
			t.Errorf("got %v", events)
		}
		if events, _ := eventsOf(t, c, "Repeated"); len(events) != 1 || events[0].Count != 5 || events[0].LastTimestamp.Sub(events[0].FirstTimestamp.Time) != 4*time.Second {
			t.Errorf("got %v", events)
		}
		if _, events := eventsOf(t, c, "Series"); len(events) != 1 || events[0].Note != "number 0" || events[0].Series == nil || events[0].Series.Count != 5 ||
			events[0].Series.LastObservedTime.Sub(events[0].EventTime.Time) != 4*time.Second {
			t.Errorf("got %v", events)
		}
		if _, events := eventsOf(t, c, "V1"); len(events) != 1 || events[0].Related == nil || events[0].Related.Name != "a" || events[0].Action != "Doing" ||
			events[0].ReportingController != "ctl" || !strings.HasPrefix(events[0].ReportingInstance, "ctl-") || events[0].Annotations["k"] != "v" {
			t.Errorf("got %v", events)
		}
		if _, events := eventsOf(t, c, "Last"); len(events) != 1 {
			t.Errorf("of the last event there are %d", len(events))
		}
		for _, reason := range []string{"Refused", "TooLate"} {
			if events, _ := eventsOf(t, c, reason); len(events) != 0 {
				t.Errorf("got %v", events)
			}
		}
		if p.err != nil {
			t.Error(p.err)
		}
	})
}

// TestSeries checks that a series is updated while it lasts, and for some minutes after its last
// event.
func TestSeries(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		c, about := newClient(t, s), configMap("a")
		p := newProcess(t, s.Config(), manager.Options{}, nil)
		<-p.Elected()
		recorder := p.GetEventRecorder("ctl")
		record := func() { recorder.Eventf(about, nil, "Normal", "Series", "Doing", "again") }
		counts := func() (all []int32) {
			_, events := eventsOf(t, c, "Series")
			for _, e := range events {
				if e.Series == nil {
					all = append(all, 1)
				} else {
					all = append(all, e.Series.Count)
				}
			}
			return all
		}
		expect := func(when string, want ...int32) {
			t.Helper()
			got := counts()
			if len(got) != len(want) {
				t.Fatalf("%s: %v, want %v", when, got, want)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%s: %v, want %v", when, got, want)
				}
			}
		}
		for range 40 {
			record()
			time.Sleep(time.Minute)
		}
		if got := counts(); len(got) != 1 || got[0] < 30 || got[0] >= 40 {
			t.Errorf("after 40 minutes: %v", got)
		}
		time.Sleep(15 * time.Minute)
		expect("after the end of the series", 40)
		record()
		time.Sleep(30 * time.Minute)
		record()
		time.Sleep(time.Minute)
		if got := counts(); len(got) != 3 && len(got) != 2 { // the first may have expired
			t.Errorf("events that are far apart: %v", got)
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestEventsWithoutServer checks that events wait while the server is down, and that a stopping
// manager waits for them for a limited time.
func TestEventsWithoutServer(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		c, about := newClient(t, s), configMap("a")
		var away atomic.Bool
		cfg := s.Config()
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if away.Load() {
					return nil, context.DeadlineExceeded
				}
				return next.RoundTrip(r)
			})
		})
		p := newProcess(t, cfg, manager.Options{Logger: silent()}, nil)
		<-p.Elected()
		away.Store(true)
		p.GetEventRecorder("ctl").Eventf(about, nil, "Normal", "Waits", "Doing", "x")
		time.Sleep(25 * time.Second)
		away.Store(false)
		time.Sleep(10 * time.Second)
		if _, events := eventsOf(t, c, "Waits"); len(events) != 1 {
			t.Errorf("there are %d", len(events))
		}
		away.Store(true)
		p.GetEventRecorderFor("ctl").Eventf(about, "Normal", "Lost", "x")
		begin := time.Now()
		time.Sleep(time.Second)
		if err := p.end(); err != nil || time.Since(begin) > 10*time.Second {
			t.Errorf("it took %v: %v", time.Since(begin), err)
		}
	})
}

// TestEventsOfTwoManagers has two managers record events of one object at the same time.
func TestEventsOfTwoManagers(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		c, about := newClient(t, s), configMap("a")
		a, b := newProcess(t, s.Config(), manager.Options{}, nil), newProcess(t, s.Config(), manager.Options{}, nil)
		<-a.Elected()
		<-b.Elected()
		a.GetEventRecorder("one").Eventf(about, nil, "Normal", "Both", "Doing", "one")
		b.GetEventRecorder("two").Eventf(about, nil, "Normal", "Both", "Doing", "two")
		time.Sleep(time.Second)
		if _, events := eventsOf(t, c, "Both"); len(events) != 2 {
			t.Errorf("there are %d", len(events))
		}
		if err := errors.Join(a.end(), b.end()); err != nil {
			t.Error(err)
		}
	})
}

// TestEventsRefusedForNow checks that events are retried if the server is overloaded, and dropped
// if it rejects them.
func TestEventsRefusedForNow(t *testing.T) {
	for code, want := range map[int]int{http.StatusTooManyRequests: 1, http.StatusInternalServerError: 1, http.StatusServiceUnavailable: 1,
		http.StatusForbidden: 0} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *kapok.Server) {
				c, about := newClient(t, s), configMap("a")
				var refuses atomic.Bool
				cfg := s.Config()
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if refuses.Load() {
							return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
						}
						return next.RoundTrip(r)
					})
				})
				p := newProcess(t, cfg, manager.Options{Logger: silent()}, nil)
				<-p.Elected()
				refuses.Store(true)
				p.GetEventRecorder("ctl").Eventf(about, nil, "Normal", "V1", "Doing", "x")
				p.GetEventRecorderFor("ctl").Event(about, "Normal", "Core", "x")
				time.Sleep(time.Second)
				refuses.Store(false)
				time.Sleep(time.Minute)
				_, v1 := eventsOf(t, c, "V1")
				core, _ := eventsOf(t, c, "Core")
				if len(v1) != want || len(core) != want {
					t.Errorf("there are %d and %d, want %d", len(v1), len(core), want)
				}
				if err := p.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSeriesOfObjectThatChanges checks that the events of a changing object make a series too.
func TestSeriesOfObjectThatChanges(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		c, about := newClient(t, s), configMap("a")
		p := newProcess(t, s.Config(), manager.Options{}, nil)
		<-p.Elected()
		for i := range 20 {
			about.ResourceVersion = fmt.Sprint(i + 1)
			p.GetEventRecorder("ctl").Eventf(about, about, "Normal", "Series", "Doing", "x")
			time.Sleep(time.Second)
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
		if _, events := eventsOf(t, c, "Series"); len(events) != 1 || events[0].Series == nil || events[0].Series.Count != 20 {
			t.Errorf("there are %d: %v", len(events), events)
		}
	})
}

// TestNoRate checks that a configuration without a rate limit does not limit events and leases.
func TestNoRate(t *testing.T) {
	bubble(t, func(t *testing.T, s *kapok.Server) {
		c, cfg := newClient(t, s), s.Config()
		cfg.QPS, cfg.Burst, cfg.RateLimiter = 0, 0, nil
		p := newProcess(t, cfg, manager.Options{}, nil)
		<-p.Elected()
		begin := time.Now()
		for i := range 200 {
			p.GetEventRecorder("ctl").Eventf(configMap(fmt.Sprint(i)), nil, "Normal", "Many", "Doing", "x")
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
		if _, events := eventsOf(t, c, "Many"); len(events) != 200 || time.Since(begin) > time.Second {
			t.Errorf("there are %d after %v", len(events), time.Since(begin))
		}
	})
}
