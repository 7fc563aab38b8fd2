package fairness

import (
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Work is what a request takes: seats while it is served, and seats for a while after it has ended, when others still have
// work with it.
type Work struct {
	Seats       int // at least 1
	FinalSeats  int // 0 if nothing follows
	FinalLength time.Duration
}

// most is how many seats the request has to get before it begins.
func (w Work) most() int { return max(w.Seats, w.FinalSeats) }

// total is all that the request takes, as far as that is known before.
func (w Work) total() seatTime {
	return seatsFor(float64(w.Seats), guess) + seatsFor(float64(w.FinalSeats), w.FinalLength)
}

// within makes the work after the end narrower and longer where a level has fewer seats than it wants.
func (w Work) within(limit int) Work {
	if w.FinalSeats > limit && limit > 0 {
		w.FinalLength = w.FinalLength * time.Duration(w.FinalSeats) / time.Duration(limit)
		w.FinalSeats = limit
	}
	return w
}

// What work is estimated from.
const (
	mostSeats      = 10 // of one request
	objectsPerSeat = 100
	watchesPerSeat = 10
	eventLength    = 5 * time.Millisecond // that a seat is taken by what watches are told
)

// estimate says what work a request is, with most seats at most.
//
// A list, and the beginning of a watch that is told what there is, takes a seat for every 100 objects that are there, or
// that it limits itself to. A write takes one; where ten watches or more hear of it, one more for every ten for 5 ms
// after its end.
func (l *Limiter) estimate(a *auth.Attributes, query string, most int) Work {
	if !a.ResourceRequest {
		return Work{Seats: 1}
	}
	switch a.Verb {
	case "list":
		return Work{Seats: l.listSeats(a, query, most)}
	case "watch":
		version, asked := parameter(query, "resourceVersion")
		initial, _ := parameter(query, "sendInitialEvents")
		if initial == "true" || !asked || version == "" || version == "0" {
			return Work{Seats: l.listSeats(a, "", most)}
		}
	case "create", "update", "patch", "delete":
		if a.Resource == "serviceaccounts" && a.Subresource == "token" {
			break // nobody is told of it
		}
		watches := l.watches.interested(a)
		if watches < watchesPerSeat {
			break
		}
		seats := seatsOf(watches, watchesPerSeat)
		return Work{Seats: 1, FinalSeats: seats, FinalLength: eventLength}.within(most)
	}
	return Work{Seats: 1}
}

func (l *Limiter) listSeats(a *auth.Attributes, query string, most int) int {
	if a.Name != "" || l.count == nil {
		return 1
	}
	objects := l.count(schema.GroupResource{Group: a.APIGroup, Resource: a.Resource})
	if objects <= objectsPerSeat {
		return 1
	}
	if text, ok := parameter(query, "limit"); ok {
		if limit, err := strconv.Atoi(text); err == nil && limit > 0 {
			objects = min(objects, limit)
		}
	}
	return min(seatsOf(objects, objectsPerSeat), most)
}

func seatsOf(n, per int) int { return max(1, (n+per-1)/per) }

// parameter returns the first value of a query parameter as it stands there. It is for values that nobody escapes.
func parameter(query, name string) (value string, ok bool) {
	for pair := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return value, true
		}
	}
	return "", false
}
