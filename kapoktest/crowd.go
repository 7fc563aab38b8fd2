package kapoktest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// tooOften is the limit of equal requests for a change of an object at one moment; for other
// requests it is five times that.
const tooOften = 20_000

// A crowd counts the requests of one moment. In a bubble, a moment lasts as long as any goroutine
// runs: a client that reacts to its own writes by another write keeps time from advancing. In real
// time a moment has few requests.
type crowd struct {
	most  int
	at    time.Time
	asked map[same]int
	stuck bool // the limit was exceeded; requests have been refused since then
}

// same is the key under which equal requests are counted.
type same struct{ method, path string }

// add counts a request, and reports whether it is one too many.
func (c *crowd) add(r *http.Request) (tooMany bool) {
	if now := time.Now(); !now.Equal(c.at) {
		c.at, c.asked = now, map[same]int{}
	}
	what, most := same{r.Method, r.URL.Path}, c.most
	if r.Method != http.MethodPut && r.Method != http.MethodPatch && r.Method != http.MethodDelete {
		most *= 5
	}
	c.asked[what]++
	return c.asked[what] > most
}

// String lists the five most frequent requests of the moment.
func (c *crowd) String() string {
	all := slices.SortedFunc(maps.Keys(c.asked), func(a, b same) int {
		return cmp.Or(c.asked[b]-c.asked[a], strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	var text strings.Builder
	for _, what := range all[:min(len(all), 5)] {
		fmt.Fprintf(&text, "\n  %d x %s %s", c.asked[what], what.method, what.path)
	}
	return text.String()
}

// admit refuses requests once time has been kept from passing. That is an error after which clients
// wait; those who do not must wait here.
func (r *recorder) admit(req *http.Request) error {
	r.mu.Lock()
	tooMany, stuck := r.crowd.add(req), r.crowd.stuck
	var why error
	if tooMany && !stuck {
		why = errors.New("the program repeats the same requests without a pause, so virtual time cannot advance:" + r.crowd.String())
		r.crowd.stuck, r.crowd.most = true, r.crowd.most/100
	}
	stuck = r.crowd.stuck
	r.mu.Unlock()
	switch {
	case !stuck:
		return nil
	case why != nil:
		r.fail(why)
	case tooMany:
		select {
		case <-time.After(time.Second):
		case <-req.Context().Done():
		}
	}
	return errRefused
}
