package fairness

import (
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authz"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Work is the cost of a request: seats while it is served, and seats for a while after its end,
// during which the server sends its watch events.
type Work struct {
	Seats       int // at least 1
	FinalSeats  int // after its end, for FinalLength
	FinalLength time.Duration
}

// most returns the number of seats that must be free before the request begins.
func (w Work) most() int { return max(w.Seats, w.FinalSeats) }

// total returns the estimated cost of the request.
func (w Work) total() seatTime {
	return seatsFor(float64(w.Seats), guess) + seatsFor(float64(w.FinalSeats), w.FinalLength)
}

// within reduces the final seats to the limit of a level, and extends FinalLength so that the
// product stays the same.
func (w Work) within(limit int) Work {
	if w.FinalSeats > limit && limit > 0 {
		w.FinalLength = w.FinalLength * time.Duration(w.FinalSeats) / time.Duration(limit)
		w.FinalSeats = limit
	}
	return w
}

// The constants of the estimate.
const (
	mostSeats      = 10 // maximum for one request
	objectsPerSeat = 100
	bytesPerSeat   = 100_000
	watchesPerSeat = 10
	eventLength    = 5 * time.Millisecond // how long a write occupies a seat for its watch events
)

// estimate returns the estimated work of a request, with at most the given number of seats.
//
// A list, and a watch that begins with the existing objects, takes a seat for every 100 objects of
// the resource (or its limit, if less), or for every 100 kB of them (by their average size, as
// Kubernetes does since 1.34), whichever is more. A write takes one seat; if ten or more watches
// receive its event, it also takes one for every ten of them, for 5 ms after its end.
func (l *Limiter) estimate(a *authz.Attributes, query string, most int) Work {
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
			break // no watch receives it
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

func (l *Limiter) listSeats(a *authz.Attributes, query string, most int) int {
	if a.Name != "" || l.size == nil {
		return 1
	}
	objects, bytes := l.size(schema.GroupResource{Group: a.APIGroup, Resource: a.Resource})
	if objects <= objectsPerSeat && bytes <= bytesPerSeat {
		return 1
	}
	if text, ok := parameter(query, "limit"); ok {
		if limit, err := strconv.Atoi(text); err == nil && limit > 0 && limit < objects {
			bytes = bytes / int64(objects) * int64(limit)
			objects = limit
		}
	}
	return min(max(seatsOf(objects, objectsPerSeat), seatsOf(int(bytes), bytesPerSeat)), most)
}

func seatsOf(n, per int) int { return max(1, (n+per-1)/per) }

// parameter returns the first value of a query parameter, without unescaping: use it for values
// that clients do not escape.
func parameter(query, name string) (value string, ok bool) {
	for pair := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return value, true
		}
	}
	return "", false
}
