package cronjob

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

const (
	// margin is the time from a slot to its start: the clocks of a cluster may differ by so much.
	margin = 100 * time.Millisecond
	// many is the number of missed slots above which an event asks to check the clock.
	many = 100
	// farthest limits how far back missed slots are counted. Kubernetes has no limit, so its count can
	// take any time.
	farthest = 200 // years
)

// errNever is the error of a schedule without slots, such as that for 31 February.
var errNever = errors.New("time difference between two schedules is less than 1 second")

// parse returns the schedule of a CronJob, in its time zone; by default that of the process. A time
// zone in the schedule itself has precedence: API servers have accepted that once. An unknown time
// zone is ignored here.
func parse(c *batchv1.CronJob) (s cron.Schedule, err error) {
	text := c.Spec.Schedule
	if zone := c.Spec.TimeZone; zone != nil && !namesZone(c) {
		if _, err := time.LoadLocation(*zone); err == nil {
			text = "TZ=" + *zone + " " + text
		}
	}
	defer func() {
		if r := recover(); r != nil { // the parser panics at "TZ=0"
			s, err = nil, fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	return cron.ParseStandard(text)
}

// namesZone reports whether the schedule itself has a time zone.
func namesZone(c *batchv1.CronJob) bool { return strings.Contains(c.Spec.Schedule, "TZ") }

// since returns the slot that was started last, or when the CronJob was created. Schedules without
// a time zone count in that of this time: the local one.
func since(c *batchv1.CronJob) time.Time {
	if last := c.Status.LastScheduleTime; last != nil {
		return last.Local()
	}
	return c.CreationTimestamp.Local()
}

// withinDeadline returns since, or a later time if slots must not be started so late.
func withinDeadline(c *batchv1.CronJob, since, now time.Time) time.Time {
	deadline := c.Spec.StartingDeadlineSeconds
	if deadline == nil || *deadline > math.MaxInt64/int64(time.Second) {
		return since
	}
	if earliest := now.Add(-time.Duration(*deadline) * time.Second); earliest.After(since) {
		return earliest
	}
	return since
}

// latest returns the latest slot after since that is not after now, or zero if there is none.
// missed estimates how many there are; it is 0 if there is at most one.
//
// As in Kubernetes, the estimate takes the distance of the first two slots for that of all. It also
// says where to search first: two distances before now. Kubernetes does not search further, and so
// finds no slot after a longer pause.
func latest(s cron.Schedule, since, now time.Time) (slot time.Time, missed int64, err error) {
	if limit := now.AddDate(-farthest, 0, 0); since.Before(limit) {
		since = limit
	}
	first := s.Next(since)
	if now.Before(first) {
		return time.Time{}, 0, nil
	}
	second := s.Next(first)
	if now.Before(second) {
		return first, 0, nil
	}
	distance := int64(second.Sub(first).Round(time.Second) / time.Second)
	if distance < 1 {
		return time.Time{}, 0, errNever
	}
	missed = int64(now.Sub(first)/time.Second)/distance + 1
	for back := int64(2); slot.IsZero(); back *= 2 {
		// Slots such as those of "@every 90s" are whole distances after the first one.
		from := first.Add(time.Duration(max(missed-back, 0)*distance) * time.Second)
		if back >= missed {
			slot = first
		}
		for t := s.Next(from); !t.IsZero() && !t.After(now); t = s.Next(t) {
			slot = t
		}
	}
	return slot, missed, nil
}

// untilNext returns the time until the slot that follows the latest one is to be started: 0 if
// there is none.
func untilNext(s cron.Schedule, c *batchv1.CronJob, now time.Time) time.Duration {
	from := since(c)
	slot, _, err := latest(s, from, now)
	switch {
	case err != nil:
		from = now
	case !slot.IsZero():
		from = slot
	}
	next := s.Next(from)
	if next.IsZero() {
		return 0
	}
	return max(next.Add(margin).Sub(now), time.Millisecond)
}
