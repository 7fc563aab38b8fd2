package kapoktest

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Schedule replays exactly the faults that [Explore] has reported in a failure. The text is the
// output of Explore, from the seed to the last fault; white space around lines is ignored:
//
//	kapoktest.Schedule(`
//		seed 1 (KAPOKTEST_SEED=1 runs it alone): 1 of the 4 faults is enough:
//		  DelayWatch: event 2 of controller WATCH /apis/batch/v1/cronjobs
//	`)
//
// With it, Explore runs its scenario once, and does not look for a smaller failure. It also works
// with Bubble and Start. The Faults passed to Explore or [WithFaults] must have the same MaxDelay,
// MaxStale and MaxOutage as in the run that failed. Their probabilities and Begin, and the seed of
// WithFaults, are ignored.
//
// A text that is not a schedule ends the test.
func Schedule(text string) Option {
	return func(o *options) { o.schedule, o.scheduleErr = parseSchedule(text) }
}

// A schedule is a seed with some of its faults.
type schedule struct {
	seed   uint64
	faults []Fault
}

var (
	// The first line of a schedule may follow the place where the test has failed.
	scheduleSeed  = regexp.MustCompile(`^(?:\S+\.go:\d+: )?seed (\d+)(?: \(.*)?$`)
	scheduleFault = regexp.MustCompile(`^(\w+): (request|event) (\d+) of (.+)$`)
)

// parseSchedule reads a schedule.
func parseSchedule(text string) (*schedule, error) {
	s := &schedule{}
	begun := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case !begun:
			match := scheduleSeed.FindStringSubmatch(line)
			if match == nil {
				return nil, fmt.Errorf("line %d: %q: want a line that begins with the seed, such as: seed 1", number, line)
			}
			seed, err := strconv.ParseUint(match[1], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: seed %s: want a number from 0 to %d", number, match[1], uint64(1<<64-1))
			}
			s.seed, begun = seed, true
		default:
			f, err := parseFault(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			s.faults = append(s.faults, f)
		}
	}
	switch {
	case !begun:
		return nil, fmt.Errorf("empty: want the output of Explore, from the seed to the last fault")
	case len(s.faults) == 0:
		return nil, fmt.Errorf("no fault below the seed: want lines such as: ServerError: request 1 of controller GET /api/v1/pods")
	}
	return s, nil
}

// parseFault parses the output of Fault.String.
func parseFault(line string) (Fault, error) {
	match := scheduleFault.FindStringSubmatch(line)
	if match == nil {
		return Fault{}, fmt.Errorf("%q is not a fault: want FAULT: request N of REQUEST, or FAULT: event N of REQUEST, without the output of the scenario", line)
	}
	f := Fault{What: match[1], Request: match[4]}
	if names := faultNames(); !slices.Contains(names, f.What) {
		return Fault{}, fmt.Errorf("unknown fault %q: want one of %s", f.What, strings.Join(names, ", "))
	}
	befalls := "request"
	if f.What == "DelayWatch" || f.What == "CutWatch" {
		befalls = "event"
	}
	if match[2] != befalls {
		return Fault{}, fmt.Errorf("%s applies to %s: write \"%[1]s: %[3]s N of REQUEST\"", f.What, map[string]string{"request": "a request", "event": "an event of a watch"}[befalls], befalls)
	}
	n, err := strconv.Atoi(match[3])
	if err != nil || n < 1 {
		return Fault{}, fmt.Errorf("%s %s: want a number of at least 1", befalls, match[3])
	}
	if f.N = n; befalls == "event" {
		f.N, f.Event = 0, n
	}
	return f, nil
}

// faultNames are the fields of Faults that are probabilities.
func faultNames() (all []string) {
	for field := range reflect.TypeFor[Faults]().Fields() {
		if field.Type.Kind() == reflect.Float64 {
			all = append(all, field.Name)
		}
	}
	return all
}

// report returns the outcome of a scenario with a schedule.
func (s *schedule) report(result outcome) string {
	if missing := len(s.faults) - len(result.met); missing > 0 {
		result.said = fmt.Sprintf("(%d of the faults of the schedule did not happen, as no client asked for that.)\n%s", missing, result.said)
	}
	return report(s.seed, len(s.faults), result)
}
