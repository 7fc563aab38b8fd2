package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	_ "time/tzdata" // not every machine knows the time zones

	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"

	"github.com/robfig/cron/v3"
)

// maxMissed is the limit of missed starts. More of them mean a wrong clock or schedule, and
// counting them could take forever.
const maxMissed = 100

//lint:ignore ST1005 users know it so from the tutorial, and from Kubernetes
var errTooManyMissed = fmt.Errorf("Too many missed start times (> %d). Set or decrease .spec.startingDeadlineSeconds or check clock skew.", maxMissed)

// nextSchedule returns the latest missed start until now, and the next start after now. Either is
// zero if there is none. It counts from the last job, or else from the creation of the CronJob, but
// not from before the starting deadline.
func nextSchedule(cronJob *batchv1.CronJob, now time.Time) (missed, next time.Time, err error) {
	schedule, err := parseSchedule(cronJob.Spec.Schedule)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("unparseable schedule %q: %w", cronJob.Spec.Schedule, err)
	}
	// Times from the API have an offset, not a time zone. The schedule is in the time zone of now.
	since := cronJob.CreationTimestamp.In(now.Location())
	if last := cronJob.Status.LastScheduleTime; last != nil {
		since = last.In(now.Location())
	}
	if deadline := cronJob.Spec.StartingDeadlineSeconds; deadline != nil {
		if late := now.Add(-seconds(*deadline)).Sub(since); late > 0 {
			if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
				late = late.Truncate(every.Delay) // it goes by the start before
			}
			since = since.Add(late)
		}
	}
	next = schedule.Next(since)
	for starts := 0; !next.IsZero() && !next.After(now); next = schedule.Next(next) {
		missed = next
		if starts++; starts > maxMissed {
			return time.Time{}, time.Time{}, errTooManyMissed
		}
	}
	return missed, next, nil
}

// parseSchedule parses a schedule as cron does.
func parseSchedule(schedule string) (cron.Schedule, error) {
	// The parser panics if nothing follows a time zone.
	if strings.HasPrefix(schedule, "TZ=") || strings.HasPrefix(schedule, "CRON_TZ=") {
		if !strings.Contains(schedule, " ") {
			return nil, errors.New("a schedule must follow the time zone")
		}
	}
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return nil, err
	}
	// The parser rounds shorter intervals up to one second.
	if every, ok := strings.CutPrefix(schedule, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d < time.Second {
			return nil, fmt.Errorf("@every wants a second at least, not %s", every)
		}
	}
	return parsed, nil
}

// seconds returns n seconds, or the longest duration if n is too large.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
}
