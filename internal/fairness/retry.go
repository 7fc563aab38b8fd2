package fairness

import "time"

// backoff decides how long those shall wait who are refused: twice as long while there are many of them, a second less
// when there are few. It is guarded by the lock of its level.
type backoff struct {
	seconds int64 // 1 to maxRetryAfter; 0 stands for 1
	raised  int64 // when it was last doubled, as Unix time
	now     int64 // the second that is counted
	count   int64
	history [maxRetryAfter + 1]struct{ second, count int64 } // by second, modulo its length
}

const maxRetryAfter = 32

// refuse counts somebody who is refused, and returns the Retry-After for him, in seconds.
func (b *backoff) refuse(at time.Time) int64 {
	b.seconds = max(b.seconds, 1)
	second := at.Unix()
	if second == b.now {
		b.count++
		return b.seconds
	}
	slot := &b.history[b.now%int64(len(b.history))]
	slot.second, slot.count = b.now, b.count
	b.now, b.count = second, 1

	var refused int64
	for _, s := range b.history {
		if age := second - s.second; age > 0 && age <= b.seconds {
			refused += s.count
		}
	}
	switch {
	case second-b.raised >= b.seconds && refused >= 3*b.seconds:
		b.seconds, b.raised = min(2*b.seconds, maxRetryAfter), second
	case refused < b.seconds && b.seconds > 1:
		b.seconds--
	}
	return b.seconds
}
