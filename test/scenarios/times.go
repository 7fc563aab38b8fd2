package scenarios

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// minutes are the numbers in the names of Jobs of CronJobs, and the times of their slots, relative
// to the minute in which a scenario begins.
type minutes struct {
	known bool
	zero  int64 // since 1970
}

// align waits until a second of a minute, such as :05. That of the first call is minute 0.
func (s *scenario) align(second string) error {
	at, err := strconv.Atoi(strings.TrimPrefix(second, ":"))
	if err != nil || at > 59 {
		return fmt.Errorf("%q is not a second such as :05", second)
	}
	now := time.Now()
	until := now.Truncate(time.Minute).Add(time.Duration(at) * time.Second)
	if !until.After(now) {
		until = until.Add(time.Minute)
	}
	time.Sleep(time.Until(until))
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.minutes.known {
		s.minutes = minutes{true, until.Unix() / 60}
	}
	return nil
}

var (
	placeholder = regexp.MustCompile(`\{(ns|now|minute|uid)([+-][0-9a-z]+|:[A-Za-z]+/[a-z0-9-]+)?\}`)
	rfc1123     = regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`)
)

// expand replaces {ns}, {now+D}, {minute+N} and {uid:KIND/NAME} in an input.
func (s *scenario) expand(ctx context.Context, text string) (string, error) {
	var failed error
	text = placeholder.ReplaceAllStringFunc(text, func(all string) string {
		match := placeholder.FindStringSubmatch(all)
		switch match[1] {
		case "now":
			offset, err := time.ParseDuration(cmp.Or(match[2], "0s"))
			if err != nil {
				failed = err
			}
			return time.Now().Add(offset).UTC().Format(time.RFC3339)
		case "uid":
			uid, err := s.uid(ctx, strings.TrimPrefix(match[2], ":"))
			if err != nil {
				failed = err
			}
			return uid
		case "minute":
			n, err := strconv.ParseInt(cmp.Or(match[2], "0"), 10, 64)
			if s.mu.Lock(); !s.minutes.known {
				err = fmt.Errorf("%s: there is no minute before a wait for a second", all)
			}
			n += s.minutes.zero
			s.mu.Unlock()
			if err != nil {
				failed = err
			}
			return strconv.FormatInt(n, 10)
		}
		return s.ns
	})
	return text, failed
}

// print returns a minute: relative to minute 0, unless it is far from that.
func (m minutes) print(n int64) string {
	switch d := n - m.zero; {
	case !m.known || d < -100 || d > 100:
		return "<slot>"
	case d == 0:
		return "<minute>"
	default:
		return fmt.Sprintf("<minute%+d>", d)
	}
}

// slotsLocked replaces the minutes in names of Jobs of CronJobs, and the times in events.
func (s *scenario) slotsLocked(text string) string {
	for name := range s.crons {
		pattern := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `-(\d{8})\b`)
		text = pattern.ReplaceAllStringFunc(text, func(all string) string {
			n, err := strconv.ParseInt(all[len(name)+1:], 10, 64)
			if err != nil {
				return all
			}
			return name + "-" + s.minutes.print(n)
		})
	}
	return rfc1123.ReplaceAllString(text, "<time>")
}

// slotTime prints the time of a slot, with its zone unless that is UTC.
func (s *scenario) slotTime(t time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.minutes.print(t.Unix() / 60)
	if zone := t.Format("Z07:00"); zone != "Z" {
		text += zone
	}
	return text
}
