package endpoint

import (
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/fairness"
)

// lateBodies is a server with one seat for writes, in a bubble, and clients that send bodies in
// pieces.
type lateBodies struct {
	*server
	limiter  *fairness.Limiter
	requests sync.WaitGroup
}

func newLateBodies(t *testing.T) *lateBodies {
	limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true, MaxMutatingRequestsInFlight: 1}})
	s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer = limiter, permitAll{} })
	return &lateBodies{server: s, limiter: limiter}
}

// create starts a request. It returns the writer of its body, and the channel of its response.
func (l *lateBodies) create() (io.WriteCloser, *httptest.ResponseRecorder) {
	body, in := io.Pipe()
	r := httptest.NewRequestWithContext(l.Context(), "POST", configMapPath, body)
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Impersonate-User", "bob")
	w := httptest.NewRecorder()
	l.requests.Go(func() {
		defer body.Close()
		l.ServeHTTP(cutWriter{w, body}, r)
	})
	return in, w
}

// cutWriter ends the body when the server sets a deadline for it that has passed.
type cutWriter struct {
	*httptest.ResponseRecorder
	body *io.PipeReader
}

// SetReadDeadline is called by http.ResponseController.
func (w cutWriter) SetReadDeadline(deadline time.Time) error {
	if deadline.Equal(past) {
		w.body.CloseWithError(os.ErrDeadlineExceeded)
	}
	return nil
}

// wait returns when the server is blocked until more of the bodies arrives.
func (l *lateBodies) wait() {
	time.Sleep(slowClient) // until the seat is given back
	synctest.Wait()
}

// complete checks that a request of the same user is served beside late bodies, and then sends the
// rest of these.
func (l *lateBodies) complete(t *testing.T, bodies []io.WriteCloser) {
	if w := l.do("POST", configMapPath, configMap("quick", ""), "Impersonate-User", "bob"); w.Code != 201 {
		t.Errorf("beside many late bodies: %d %s", w.Code, w.Body)
	}
	for i, body := range bodies {
		io.WriteString(body, configMap(fmt.Sprint("slow-", i), ""))
		body.Close()
		synctest.Wait()
	}
	l.requests.Wait()
}

func TestLateBodyHoldsNoSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateBodies(t)
		slow, answer := l.create()
		io.WriteString(slow, " ")
		l.wait()
		if _, writing := l.limiter.InFlight(); writing != 0 {
			t.Errorf("%d requests hold a seat while their body is missing", writing)
		}
		if w := l.do("POST", configMapPath, configMap("quick", ""), "Impersonate-User", "bob"); w.Code != 201 {
			t.Errorf("beside a late body: %d %s", w.Code, w.Body)
		}
		io.WriteString(slow, configMap("slow", ""))
		slow.Close()
		l.requests.Wait()
		if answer.Code != 201 {
			t.Errorf("the late body: %d %s", answer.Code, answer.Body)
		}
		if _, writing := l.limiter.InFlight(); writing != 0 {
			t.Errorf("%d seats are not given back", writing)
		}
	})
}

func TestLateBodyTakesASeatAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateBodies(t)
		slow, answer := l.create()
		l.wait()
		pass, _ := l.limiter.Enter(t.Context(), &fairness.Request{Attributes: &authz.Attributes{User: &authn.User{Name: "alice"}}})
		defer pass.Leave()
		io.WriteString(slow, configMap("slow", ""))
		slow.Close()
		l.requests.Wait()
		if answer.Code != 429 || answer.Header().Get("Retry-After") == "" {
			t.Errorf("no seat was free: %d %v %s", answer.Code, answer.Header(), answer.Body)
		}
	})
}

func TestLateBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateBodies(t)
		most := l.bodies.Total() / 2 // for one user
		part := strings.Repeat(" ", 2<<20)
		var bodies []io.WriteCloser
		var answers []*httptest.ResponseRecorder
		for range 2 * int(most) / len(part) {
			body, answer := l.create()
			l.wait()
			go io.WriteString(body, part)
			synctest.Wait()
			bodies, answers = append(bodies, body), append(answers, answer)
			if n := l.bodies.Used(); n > most {
				t.Fatalf("%d bytes of late bodies are held", n)
			}
		}
		l.complete(t, bodies)
		refused := 0
		for _, answer := range answers {
			switch answer.Code {
			case 201:
			case 429:
				refused++
			default:
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
		}
		if refused == 0 || refused == len(answers) {
			t.Errorf("%d of %d late bodies were refused", refused, len(answers))
		}
		if n := l.bodies.Used(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	})
}

// Bodies that are too light to be limited while they arrive are limited once they are late.
func TestLateLightBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateBodies(t)
		most := l.bodies.Total() / 2 // for one user
		fit := int(most / (lateRequest + lightBody))
		var bodies []io.WriteCloser
		var answers []*httptest.ResponseRecorder
		for range fit + 3 {
			body, answer := l.create()
			l.wait()
			bodies, answers = append(bodies, body), append(answers, answer)
			if n := l.bodies.Used(); n > most {
				t.Fatalf("%d bytes of late bodies are held", n)
			}
		}
		l.complete(t, bodies)
		for i, answer := range answers {
			want := 201
			if i >= fit {
				want = 429
			}
			if answer.Code != want {
				t.Errorf("late body %d of %d: %d %s", i, fit, answer.Code, answer.Body)
			}
		}
		if n := l.bodies.Used(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	})
}

// TestBodiesGrowInTurn checks that a body waits for its turn if it needs more than its first
// buffer.
func TestBodiesGrowInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLateBodies(t)
		for range cap(l.growers.Turns) {
			l.growers.Take()
		}
		large, answer := l.create()
		go func() {
			io.WriteString(large, strings.Repeat(" ", firstBytes)+configMap("large", ""))
			large.Close()
		}()
		l.wait()
		if w := l.do("POST", configMapPath, configMap("small", ""), "Impersonate-User", "bob"); w.Code != 201 {
			t.Errorf("a small body: %d %s", w.Code, w.Body)
		}
		if w := l.do("GET", configMapPath+"/large", ""); w.Code != 404 {
			t.Errorf("the large body without a turn: %d %s", w.Code, w.Body)
		}
		l.growers.Give()
		l.requests.Wait()
		if answer.Code != 201 {
			t.Errorf("the large body: %d %s", answer.Code, answer.Body)
		}
		if n := len(l.growers.Turns); n != cap(l.growers.Turns)-1 {
			t.Errorf("%d turns are taken, want %d", n, cap(l.growers.Turns)-1)
		}
	})
}
