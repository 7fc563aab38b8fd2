package fairness

import "time"

// backoff computes the Retry-After of rejected requests: it doubles while there are many
// rejections, and decreases by a second when there are few. The lock of its level guards it.
type backoff struct {
	seconds int64 // 1 to maxRetryAfter; 0 means 1
	raised  int64 // when it was last doubled, as Unix time
	now     int64 // the current second, which count is for
	count   int64
	history [maxRetryAfter + 1]struct{ second, count int64 } // by second, modulo its length
}

const maxRetryAfter = 32

// refuse counts a rejected request, and returns its Retry-After in seconds.
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
