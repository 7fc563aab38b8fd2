package endpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/audit"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/fairness"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// readers permits impersonation and reads, and denies all writes.
type readers struct{}

func (readers) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.Verb == "create" {
		return authz.Deny, "only readers", nil
	}
	return authz.Allow, "", nil
}

// unread counts the calls of Read.
type unread struct{ reads int }

func (u *unread) Read(b []byte) (int, error) {
	u.reads++
	return len(b), nil
}

func (u *unread) Close() error { return nil }

// TestRefusedBodiesAreNotRead sends 3 MB without permission: the response comes before the body is
// read.
func TestRefusedBodiesAreNotRead(t *testing.T) {
	s := newServer(t)
	s.opts.Authorizer = readers{}
	body := &unread{}
	r := httptest.NewRequestWithContext(t.Context(), "POST", configMapPath, body)
	r.ContentLength = 3 << 20
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Impersonate-User", "bob")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || body.reads != 0 {
		t.Errorf("%d after %d reads of the body: %s", w.Code, body.reads, w.Body)
	}
}

// TestRefusedBodiesAreNotAskedFor announces a body and waits for 100 Continue, which the server
// sends to authorized users only.
func TestRefusedBodiesAreNotAskedFor(t *testing.T) {
	s := newServer(t)
	s.opts.Authorizer = readers{}
	listening := httptest.NewServer(s)
	defer listening.Close()
	for _, want := range []string{"HTTP/1.1 403 Forbidden", "HTTP/1.1 100 Continue"} {
		conn, err := net.Dial("tcp", listening.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\nImpersonate-User: bob\r\n\r\n", configMapPath, token)
		line := make([]byte, len(want))
		if _, err := io.ReadFull(conn, line); err != nil || string(line) != want {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
		conn.Close()
		s.opts.Authorizer = permitAll{}
	}
}

// busy is an authorizer that delays updates, as a webhook does.
type busy struct {
	deciding atomic.Int64
	gate     chan struct{}
}

func (b *busy) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.Verb == "update" {
		b.deciding.Add(1)
		<-b.gate
		b.deciding.Add(-1)
	}
	return authz.Allow, "", nil
}

// TestAuthorizerIsAskedInASeat sends more requests than there are seats to a slow authorizer, with
// a body and without.
func TestAuthorizerIsAskedInASeat(t *testing.T) {
	for _, body := range []string{"", "x"} {
		synctest.Test(t, func(t *testing.T) {
			const seats, requests = 2, 50
			limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true, MaxMutatingRequestsInFlight: seats}})
			defer limiter.Close()
			b := &busy{gate: make(chan struct{})}
			s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer = limiter, b })
			codes := make(chan int)
			for range requests {
				go func() { codes <- s.do("PUT", configMapPath+"/a", body, "Impersonate-User", "bob").Code }()
			}
			synctest.Wait()
			if n := b.deciding.Load(); n != seats {
				t.Errorf("body %q: %d requests are in the authorizer, want %d", body, n, seats)
			}
			close(b.gate)
			refused := 0
			for range requests {
				if <-codes == http.StatusTooManyRequests {
					refused++
				}
			}
			if refused != requests-seats {
				t.Errorf("body %q: %d requests were refused, want %d", body, refused, requests-seats)
			}
		})
	}
}

// TestNoRoomIsTooManyRequests reads a body without memory for it, in each of the ways in which
// bodies are read.
func TestNoRoomIsTooManyRequests(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Authorizer = permitAll{} })
	s.bodies.Try("other", s.bodies.Total())
	body := configMap("a", `,"data":{"a":"`+strings.Repeat("x", 2*lightBody)+`"}`)
	for name, length := range map[string]int64{"before the seat": -1, "with a seat": 0} { // a body of no length is read late
		r := httptest.NewRequestWithContext(t.Context(), "POST", configMapPath, strings.NewReader(body))
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Impersonate-User", "bob")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
	s.bodies.Release("other", s.bodies.Total())
	if n := s.bodies.Used(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestExemptBodiesHaveTheirOwnMemory fills the memory for bodies with late ones that wait for
// seats: requests that are exempt from limits are served, and limited among themselves.
func TestExemptBodiesHaveTheirOwnMemory(t *testing.T) {
	for _, plain := range []bool{true, false} {
		limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: plain}})
		defer limiter.Close()
		s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer = limiter, permitAll{} })
		body := configMap("a", `,"data":{"a":"`+strings.Repeat("x", 900_000)+`"}`)
		s.bodies.Try("other", s.bodies.Total())
		if w := s.do("POST", configMapPath, body, "Impersonate-User", "bob"); w.Code != http.StatusTooManyRequests {
			t.Errorf("plain %t: %d %.300s", plain, w.Code, w.Body)
		}
		if w := s.do("POST", configMapPath, body); w.Code != http.StatusCreated {
			t.Errorf("plain %t, exempt: %d %.300s", plain, w.Code, w.Body)
		}
		s.exempted.Try("other", s.exempted.Total())
		if w := s.do("PUT", configMapPath+"/a", body); w.Code != http.StatusTooManyRequests {
			t.Errorf("plain %t, exempt without memory: %d %.300s", plain, w.Code, w.Body)
		}
		s.exempted.Release("other", s.exempted.Total())
		s.bodies.Release("other", s.bodies.Total())
		if s.bodies.Used() != 0 || s.exempted.Used() != 0 {
			t.Errorf("%d and %d bytes are left", s.bodies.Used(), s.exempted.Used())
		}
	}
}

// TestWaitsShareOnePatience lets a request wait for a seat, for memory and for a place among heavy
// requests, each of which is released late: all waits together last as long as its patience.
func TestWaitsShareOnePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := fairness.New(fairness.Config{Options: fairness.Options{MaxRequestsInFlight: 10, MaxMutatingRequestsInFlight: 10}})
		defer limiter.Close()
		s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer = limiter, permitAll{} })
		seats := holdSeats(t, limiter)
		s.memory.Try("a", s.memory.Total())
		for n := range s.heavy.Total() {
			s.heavy.Try(fmt.Sprint(n), 1)
		}
		go func() {
			time.Sleep(5 * time.Second)
			for _, p := range seats {
				p.Leave()
			}
			time.Sleep(2 * time.Second)
			s.memory.Release("a", s.memory.Total())
		}()
		begun := time.Now()
		w := s.do("POST", configMapPath, configMap("c", `,"data":{"a":"`+strings.Repeat("x", 1_000_000)+`"}`), "Impersonate-User", "bob")
		if took := time.Since(begun); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || took != requestTimeout/4 {
			t.Errorf("%d after %v: %s", w.Code, took, w.Body)
		}
		if s.memory.Used() != 0 || s.bodies.Used() != 0 {
			t.Errorf("%d and %d bytes are left", s.memory.Used(), s.bodies.Used())
		}
	})
}

// TestRequestsThatWaitForSeatsHoldNoMemory has two users send heavy bodies that wait for seats: a
// third user, who needs none, is served.
func TestRequestsThatWaitForSeatsHoldNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := fairness.New(fairness.Config{Options: fairness.Options{MaxRequestsInFlight: 10, MaxMutatingRequestsInFlight: 10}})
		defer limiter.Close()
		s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer, o.RequestMemory = limiter, permitAll{}, 128<<20 })
		seats := holdSeats(t, limiter)
		heavy := func(name string) string {
			return configMap(name, `,"data":{"a":"`+strings.Repeat("x", 1_000_000)+`"}`)
		}
		done := make(chan int)
		const each = 8
		for i := range 2 * each {
			go func() {
				w := s.do("POST", configMapPath, heavy(fmt.Sprint("c", i)), "Impersonate-User", []string{"bob", "eve"}[i%2])
				done <- w.Code
			}()
		}
		synctest.Wait()
		if n := s.memory.Used(); n != 0 {
			t.Errorf("requests that wait for a seat hold %d bytes", n)
		}
		if w := s.do("POST", configMapPath, heavy("admin")); w.Code != http.StatusCreated { // exempt from limits
			t.Errorf("beside them: %d %s", w.Code, w.Body)
		}
		for _, p := range seats {
			p.Leave()
		}
		codes := map[int]int{}
		for range 2 * each {
			codes[<-done]++
		}
		if codes[201] == 0 || codes[201]+codes[429] != 2*each {
			t.Errorf("answers %v", codes)
		}
		for name, m := range map[string]*fairness.Memory{"memory": s.memory, "heavy": s.heavy, "bodies": s.bodies, "unread": s.unread} {
			if n := m.Used(); n != 0 {
				t.Errorf("%s: %d are left", name, n)
			}
		}
	})
}

// holdSeats occupies all seats that bob could get.
func holdSeats(t *testing.T, l *fairness.Limiter) []*fairness.Pass {
	var all []*fairness.Pass
	for {
		p, retryAfter := l.Enter(t.Context(), &fairness.Request{
			Attributes: &authz.Attributes{User: &authn.User{Name: "bob", Groups: []string{"system:authenticated"}}, Verb: "create", ResourceRequest: true, Resource: "configmaps", Namespace: "default"},
			Patience:   time.Nanosecond,
		})
		if retryAfter > 0 {
			return all
		}
		all = append(all, &p)
	}
}

// fullAtLast is a client that reads everything except the last piece of a response, or what a Flush
// sends, until it is released.
type fullAtLast struct {
	*httptest.ResponseRecorder
	flushes bool // Flush waits, not Write
	waits   chan struct{}
}

func (f *fullAtLast) Write(b []byte) (int, error) {
	if !f.flushes && len(b) < unbuffered {
		<-f.waits
	}
	return f.ResponseRecorder.Write(b)
}

func (f *fullAtLast) Flush() {
	if f.flushes {
		<-f.waits
	}
}

// TestLastPieceIsGuarded streams a list whose last piece is small to clients that do not read it:
// the seats are given back.
func TestLastPieceIsGuarded(t *testing.T) {
	for _, flushes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true}})
			s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer = limiter, permitAll{} })
			// The first two objects are a piece, the third is the last.
			for i, size := range []int{spillAbove / 2, spillAbove / 2, 10} {
				s.must(http.StatusCreated, "POST", configMapPath, configMap(fmt.Sprint("c", i), `,"data":{"a":"`+strings.Repeat("x", size)+`"}`))
			}
			r := httptest.NewRequestWithContext(t.Context(), "GET", configMapPath, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Impersonate-User", "bob")
			client := &fullAtLast{httptest.NewRecorder(), flushes, make(chan struct{})}
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				s.ServeHTTP(client, r)
			}()
			time.Sleep(time.Second)
			if reading, _ := limiter.InFlight(); reading != 0 {
				t.Errorf("flushes %t: a client that does not take the last piece keeps %d seats", flushes, reading)
			}
			close(client.waits)
			if reason := <-done; reason != nil || !strings.Contains(client.Body.String(), `"c2"`) {
				t.Errorf("flushes %t: %v, %d bytes", flushes, reason, client.Body.Len())
			}
			if n := s.unread.Used(); n != 0 {
				t.Errorf("%d bytes are left", n)
			}
		})
	}
}

// TestAuditCopiesWaitWithoutSeats has an audited list wait for the lane: it occupies no seat, and
// is recorded once.
func TestAuditCopiesWaitWithoutSeats(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true}})
	s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer = limiter, permitAll{} })
	s.must(http.StatusCreated, "POST", configMapPath, configMap("audited", ""))
	auditor, err := audit.New(audit.Options{PolicyFile: policy, LogPath: log}, s.log)
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Audit = auditor
	for n := range s.lane.Total() {
		s.lane.Try(fmt.Sprint(n), 1)
	}
	answer := make(chan *httptest.ResponseRecorder)
	go func() { answer <- s.do("GET", configMapPath, "", "Impersonate-User", "bob") }()
	for s.unread.Used() == 0 { // until it waits for the lane
		time.Sleep(time.Millisecond)
	}
	if reading, _ := limiter.InFlight(); reading != 0 {
		t.Errorf("a list that waits for the lane keeps %d seats", reading)
	}
	for n := range s.lane.Total() {
		s.lane.Release(fmt.Sprint(n), 1)
	}
	if w := <-answer; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"audited"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n := s.lane.Used(); n != 0 {
		t.Errorf("%d places are left taken", n)
	}
	auditor.Close()
	data, err := os.ReadFile(log)
	if err != nil || strings.Count(string(data), `"audited"`) != 1 {
		t.Errorf("%v: %s", err, data)
	}
}

// TestSpanOfWait checks that a request that waits for a seat has a span for that time.
func TestSpanOfWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := fairness.New(fairness.Config{Options: fairness.Options{MaxRequestsInFlight: 10, MaxMutatingRequestsInFlight: 10}})
		defer limiter.Close()
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		s := newServer(t, func(o *Options) { o.Limiter, o.Authorizer, o.TracerProvider = limiter, permitAll{}, provider })
		seats := holdSeats(t, limiter)
		go func() {
			time.Sleep(5 * time.Second)
			for _, p := range seats {
				p.Leave()
			}
		}()
		s.do("POST", configMapPath, configMap("c", ""), "Impersonate-User", "bob")
		for _, span := range recorder.Ended() {
			if span.Name() == "Wait for a seat" {
				if took := span.EndTime().Sub(span.StartTime()); took != 5*time.Second || !span.Parent().IsValid() {
					t.Errorf("the span of the wait lasts %v, below %v", took, span.Parent())
				}
				return
			}
		}
		t.Errorf("there is no span of the wait among %v", recorder.Ended())
	})
}
