package cronjob

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A table is a schedule as the times that it allows: a slow twin of the library.
type table struct {
	text                      string
	minutes, hours, days, mon []int
	weekdays                  []int // nil: all
	zone                      string
}

var tables = []table{
	{text: "* * * * *"},
	{text: "*/5 * * * *", minutes: every(0, 59, 5)},
	{text: "7-59/13 * * * *", minutes: []int{7, 20, 33, 46, 59}},
	{text: "0 * * * *", minutes: []int{0}},
	{text: "30 2 * * *", minutes: []int{30}, hours: []int{2}, zone: "America/New_York"}, // is left out once a year
	{text: "30 1 * * *", minutes: []int{30}, hours: []int{1}, zone: "America/New_York"}, // comes twice once a year
	{text: "15 */6 * * mon-fri", minutes: []int{15}, hours: every(0, 23, 6), weekdays: []int{1, 2, 3, 4, 5}, zone: "Asia/Kolkata"},
	{text: "0 0 1 * *", minutes: []int{0}, hours: []int{0}, days: []int{1}, zone: "Europe/Berlin"},
	{text: "0 12 29 feb *", minutes: []int{0}, hours: []int{12}, days: []int{29}, mon: []int{2}},
	{text: "@hourly", minutes: []int{0}, zone: "Australia/Lord_Howe"}, // whose summer is half an hour ahead
}

func every(from, to, step int) (all []int) {
	for ; from <= to; from += step {
		all = append(all, from)
	}
	return all
}

func (s table) has(t time.Time) bool { // in the zone
	in := func(all []int, n int) bool { return all == nil || slices.Contains(all, n) }
	return in(s.minutes, t.Minute()) && in(s.hours, t.Hour()) && in(s.days, t.Day()) && in(s.mon, int(t.Month())) && in(s.weekdays, int(t.Weekday()))
}

// between returns the slots after from, until to.
func (s table) between(from, to time.Time) (all []time.Time) {
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		panic(err)
	}
	for t := from.In(zone).Truncate(time.Minute).Add(time.Minute); !t.After(to); t = t.Add(time.Minute) {
		if s.has(t) {
			all = append(all, t)
		}
	}
	return all
}

func (s table) cronJob() *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	if c.Spec.Schedule = s.text; s.zone != "" {
		c.Spec.TimeZone = &s.zone
	}
	return c
}

// TestSlots walks from slot to slot through the two months of a year in which clocks are changed:
// untilNext leads to each slot of the table once, and there, latest finds it.
func TestSlots(t *testing.T) {
	for _, tt := range tables {
		for _, month := range []time.Month{time.March, time.October} {
			t.Run(fmt.Sprint(tt.text, tt.zone, month), func(t *testing.T) {
				c := tt.cronJob()
				s, err := parse(c)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Date(2024, month, -10, 10, 20, 30, 0, time.UTC)
				end := begin.AddDate(0, 0, 50)
				c.CreationTimestamp = metav1.NewTime(begin)
				want := tt.between(begin, end)
				for now := begin; ; {
					pause := untilNext(s, c, now)
					now = now.Add(pause)
					slot := now.Add(-margin)
					if slot.After(end) {
						break
					}
					if len(want) == 0 || !slot.Equal(want[0]) {
						t.Fatalf("slot %v, want %v", slot, slices.Concat(want, []time.Time{{}})[0])
					}
					if found, missed, err := latest(s, since(c), now); err != nil || missed != 0 || !found.Equal(slot) {
						t.Fatalf("at %v, latest is %v (%d, %v)", now, found, missed, err)
					}
					want = want[1:]
					c.Status.LastScheduleTime = &metav1.Time{Time: slot}
				}
				if len(want) > 0 {
					t.Errorf("%d slots are missing, the first is %v", len(want), want[0])
				}
			})
		}
	}
}

// TestLatest compares the latest of the slots that were missed with the table, for random times.
func TestLatest(t *testing.T) {
	for _, tt := range tables {
		s, err := parse(tt.cronJob())
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 100 {
			from := time.Date(2023, 5, 1, 0, 0, r.IntN(60), 0, time.UTC).Add(time.Duration(r.IntN(365*24*60)) * time.Minute)
			now := from.Add(time.Duration(r.IntN(20*24*60))*time.Minute + time.Duration(r.IntN(60))*time.Second)
			all := tt.between(from, now)
			found, missed, err := latest(s, from, now)
			var want time.Time
			if len(all) > 0 {
				want = all[len(all)-1]
			}
			if err != nil || !found.Equal(want) || (missed > 0) != (len(all) > 1) {
				t.Errorf("%s: %v to %v has %v (%d, %v), want %v", tt.text, from, now, found, missed, err, want)
			}
		}
	}
}

func TestOddSchedules(t *testing.T) {
	now := time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, tt := range []struct {
		schedule, zone string
		since          time.Time
		slot           time.Time
		missed         int64
		err            error
	}{
		{schedule: "0 0 31 2 *", err: errNever},
		{schedule: "0 0 31 2 *", since: now.AddDate(-1000, 0, 0), err: errNever},
		{schedule: "@every 90s", since: now.Add(-3 * time.Minute), slot: now, missed: 2},
		{schedule: "@every 7m", since: now.Add(-time.Hour), slot: now.Add(-4 * time.Minute), missed: 8},
		{schedule: "* * * * *", since: now.Add(time.Hour)},
		{schedule: "* * * * *", since: time.Unix(0, 0), slot: now.Truncate(time.Minute), missed: now.Unix() / 60},
		{schedule: "CRON_TZ=Asia/Tokyo 0 9 * * *", zone: "Asia/Kolkata", since: now.Add(-5 * time.Hour), slot: now.Truncate(24 * time.Hour)},
		{schedule: "0 9 * * *", zone: "Asia/Tokyo", since: now.Add(-5 * time.Hour), slot: now.Truncate(24 * time.Hour)},
		{schedule: "0 0 * * *", zone: "No/Where", since: now.Add(-5 * time.Hour), slot: now.Truncate(24 * time.Hour)}, // as if without
	} {
		t.Run(fmt.Sprint(tt.schedule, tt.zone, tt.since), func(t *testing.T) {
			s, err := parse(table{text: tt.schedule, zone: tt.zone}.cronJob())
			if err != nil {
				t.Fatal(err)
			}
			slot, missed, err := latest(s, tt.since, now)
			if !slot.Equal(tt.slot) || missed != tt.missed || err != tt.err {
				t.Errorf("%v, %d, %v; want %v, %d, %v", slot, missed, err, tt.slot, tt.missed, tt.err)
			}
		})
	}
	// The count does not begin in the year 1.
	s, err := parse(table{text: "* * * * *"}.cronJob())
	if err != nil {
		t.Fatal(err)
	}
	if slot, missed, err := latest(s, time.Time{}, now); err != nil || !slot.Equal(now.Truncate(time.Minute)) || missed < 1e8 {
		t.Errorf("since the year 1: %v, %d, %v", slot, missed, err)
	}
}

func TestUnparseable(t *testing.T) {
	for _, text := range []string{"", "* * * *", "61 * * * *", "TZ=0", "TZ=No/Where * * * * *", "@sometimes"} {
		if s, err := parse(table{text: text}.cronJob()); err == nil || s != nil {
			t.Errorf("%q is a schedule", text)
		}
	}
}

func TestDeadline(t *testing.T) {
	now := time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)
	for seconds, want := range map[int64]time.Duration{0: 0, 60: time.Minute, 7200: time.Hour, 1e12: time.Hour} {
		c := &batchv1.CronJob{}
		c.Spec.StartingDeadlineSeconds = &seconds
		if got := now.Sub(withinDeadline(c, now.Add(-time.Hour), now)); got != want {
			t.Errorf("%d s: %v before now, want %v", seconds, got, want)
		}
	}
}
