package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"
	"github.com/kapok-dev/kapok/test/seeds"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestNextSchedule(t *testing.T) {
	for _, tt := range []struct {
		name         string
		schedule     string // default: each hour
		created      string // default: noon of 2026-03-02, a Monday
		last         string
		deadline     *int64
		now          string
		missed, next string // "": none
		fails        string
	}{
		{name: "nothing due yet", now: "2026-03-02T12:59:59Z", next: "2026-03-02T13:00:00Z"},
		{name: "born at a start", now: "2026-03-02T12:00:00Z", next: "2026-03-02T13:00:00Z"},
		{name: "due to the moment", now: "2026-03-02T13:00:00Z", missed: "2026-03-02T13:00:00Z", next: "2026-03-02T14:00:00Z"},
		{name: "done", last: "2026-03-02T13:00:00Z", now: "2026-03-02T13:00:05Z", next: "2026-03-02T14:00:00Z"},
		{name: "of several the newest", last: "2026-03-02T13:00:00Z", now: "2026-03-02T19:30:00Z",
			missed: "2026-03-02T19:00:00Z", next: "2026-03-02T20:00:00Z"},
		{name: "100 missed", now: "2026-03-06T16:00:00Z", missed: "2026-03-06T16:00:00Z", next: "2026-03-06T17:00:00Z"},
		{name: "101 missed", now: "2026-03-06T17:00:00Z", fails: "Too many missed start times (> 100). " +
			"Set or decrease .spec.startingDeadlineSeconds or check clock skew."},
		{name: "101 missed, within the deadline fewer", deadline: new(int64(7200)), now: "2026-03-06T17:00:00Z",
			missed: "2026-03-06T17:00:00Z", next: "2026-03-06T18:00:00Z"},
		{name: "past the deadline", deadline: new(int64(60)), now: "2026-03-02T13:02:00Z", next: "2026-03-02T14:00:00Z"},
		{name: "within the deadline", deadline: new(int64(60)), now: "2026-03-02T13:00:59Z",
			missed: "2026-03-02T13:00:00Z", next: "2026-03-02T14:00:00Z"},
		{name: "endless deadline", deadline: new(int64(math.MaxInt64)), now: "2026-03-02T13:02:00Z",
			missed: "2026-03-02T13:00:00Z", next: "2026-03-02T14:00:00Z"},
		{name: "the clock went back", last: "2026-03-02T15:00:00Z", now: "2026-03-02T12:30:00Z", next: "2026-03-02T16:00:00Z"},
		{name: "descriptor", schedule: "@daily", now: "2026-03-03T00:00:01Z", missed: "2026-03-03T00:00:00Z", next: "2026-03-04T00:00:00Z"},
		{name: "interval", schedule: "@every 90s", now: "2026-03-02T12:02:00Z", missed: "2026-03-02T12:01:30Z", next: "2026-03-02T12:03:00Z"},
		{name: "interval longer than the deadline", schedule: "@every 1h", deadline: new(int64(60)), now: "2026-03-02T15:00:30Z",
			missed: "2026-03-02T15:00:00Z", next: "2026-03-02T16:00:00Z"},
		{name: "interval past the deadline", schedule: "@every 1h", deadline: new(int64(60)), now: "2026-03-02T15:01:00Z", next: "2026-03-02T16:00:00Z"},
		{name: "time zone", schedule: "CRON_TZ=Asia/Tokyo 0 9 * * *", now: "2026-03-03T00:00:00Z",
			missed: "2026-03-03T00:00:00Z", next: "2026-03-04T00:00:00Z"},
		{name: "a day that never comes", schedule: "0 0 31 2 *", now: "2026-03-03T00:00:00Z"},
		// The last start is read back with the offset of winter; the schedule goes by the wall.
		{name: "summer time begins", schedule: "0 9 * * *", last: "2026-03-28T09:00:00+01:00", now: "2026-03-29T09:30:00+02:00 Europe/Berlin",
			missed: "2026-03-29T07:00:00Z", next: "2026-03-30T07:00:00Z"},
		{name: "no schedule", schedule: "every day", now: "2026-03-03T00:00:00Z", fails: `unparseable schedule "every day": expected exactly 5 fields`},
		{name: "time zone alone", schedule: "TZ=UTC", now: "2026-03-03T00:00:00Z", fails: "a schedule must follow the time zone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cronJob := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: "0 * * * *", StartingDeadlineSeconds: tt.deadline}}
			if tt.schedule != "" {
				cronJob.Spec.Schedule = tt.schedule
			}
			cronJob.CreationTimestamp = metav1.NewTime(at(t, "2026-03-02T12:00:00Z"))
			if tt.last != "" {
				cronJob.Status.LastScheduleTime = new(metav1.NewTime(at(t, tt.last)))
			}
			missed, next, err := nextSchedule(cronJob, at(t, tt.now))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("got %v, want an error with %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := at(t, tt.missed); !missed.Equal(want) {
				t.Errorf("missed %v, want %v", missed, want)
			}
			if want := at(t, tt.next); !next.Equal(want) {
				t.Errorf("next is %v, want %v", next, want)
			}
		})
	}
}

// TestNextScheduleSlowly compares with a walk over all minutes.
func TestNextScheduleSlowly(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	field := func(max int) string {
		switch random.IntN(3) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+random.IntN(max))
		}
		return fmt.Sprint(random.IntN(max))
	}
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for range 300 {
		c := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: field(60) + " " + field(24) + " * * *"}}
		created, now := start, start.Add(time.Duration(random.IntN(3*24*3600))*time.Second)
		c.CreationTimestamp = metav1.NewTime(created)
		if random.IntN(2) == 0 {
			created = created.Add(time.Duration(random.IntN(24*60)) * time.Minute)
			c.Status.LastScheduleTime = new(metav1.NewTime(created))
		}
		if random.IntN(2) == 0 {
			c.Spec.StartingDeadlineSeconds = new(random.Int64N(2 * 24 * 3600))
		}
		schedule, err := parseSchedule(c.Spec.Schedule)
		if err != nil {
			t.Fatal(err)
		}
		var wantMissed, wantNext time.Time
		starts := 0
		for m := created.Add(time.Minute); wantNext.IsZero(); m = m.Add(time.Minute) {
			deadline := c.Spec.StartingDeadlineSeconds
			switch due := schedule.Next(m.Add(-time.Second)).Equal(m); {
			case !due:
			case m.After(now):
				wantNext = m
			case deadline == nil || now.Sub(m) < time.Duration(*deadline)*time.Second:
				starts++
				wantMissed = m
			}
		}
		missed, next, err := nextSchedule(c, now)
		if starts > maxMissed {
			if !errors.Is(err, errTooManyMissed) {
				t.Errorf("%q, %d missed: %v", c.Spec.Schedule, starts, err)
			}
			continue
		}
		if err != nil || !missed.Equal(wantMissed) || !next.Equal(wantNext) {
			t.Errorf("%q from %v, deadline %v, at %v: missed %v, next %v, %v; want %v and %v", c.Spec.Schedule, created,
				ptr.Deref(c.Spec.StartingDeadlineSeconds, -1), now, missed, next, err, wantMissed, wantNext)
		}
	}
}

// at parses a time (RFC 3339), which a time zone may follow. "" is the zero time.
func at(t *testing.T, s string) time.Time {
	t.Helper()
	if s == "" {
		return time.Time{}
	}
	s, zone, zoned := strings.Cut(s, " ")
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	if !zoned {
		return parsed
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.In(location)
}

// FuzzParseSchedule: whatever a user writes, the parser returns.
func FuzzParseSchedule(f *testing.F) {
	for _, s := range []string{"*/5 * * * *", "@every 1h", "@hourly", "TZ=UTC 0 0 * * *", "TZ=", "CRON_TZ=UTC", "0 0 31 2 *", "60 * * * *", ""} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		schedule, err := parseSchedule(s)
		if err != nil {
			return
		}
		if next := schedule.Next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q: after %v comes %v", s, now, next)
		}
	})
}
