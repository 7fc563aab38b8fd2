package endpoint

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/fairness"
)

// TestUnsentBodiesHoldNoSeat announces bodies and does not send them. net/http waits for up to 256
// KiB of an unread body before it writes the header, or after the handler has returned: neither
// occupies a seat, and both end.
func TestUnsentBodiesHoldNoSeat(t *testing.T) {
	for name, test := range map[string]struct {
		method, path, more string
		code               int
		within             time.Duration // until the seat is given back
	}{
		"a long refusal":           {"POST", configMapPath + "/" + strings.Repeat("x", 1200) + "/foo", "Content-Length: 200000", 403, 0},
		"a short refusal":          {"POST", configMapPath, "Content-Length: 200000", 403, 0},
		"a refusal, chunked":       {"POST", configMapPath, "Transfer-Encoding: chunked", 403, 0},
		"a refusal before sending": {"POST", configMapPath, "Content-Length: 200000\r\nExpect: 100-continue", 403, 0},
		"an answer":                {"GET", configMapPath + "/a", "Content-Length: 200000", 200, slowClient},
		"a watch":                  {"GET", configMapPath + "?watch=1&timeoutSeconds=30", "Content-Length: 200000", 200, slowClient},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := fairness.New(fairness.Config{Options: fairness.Options{Unfair: true, MaxRequestsInFlight: 2, MaxMutatingRequestsInFlight: 2}})
				defer limiter.Close()
				s := newServer(t, func(o *Options) { o.Limiter = limiter })
				s.must(201, "POST", configMapPath, configMap("a", `,"data":{"a":"`+strings.Repeat("x", 2500)+`"}`))
				s.opts.Authorizer = readers{}
				listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				serving := &http.Server{Handler: s}
				go serving.Serve(listener)
				defer serving.Close()

				conn, far := net.Pipe()
				defer conn.Close()
				listener.conns <- far
				go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\nImpersonate-User: bob\r\n\r\n", test.method, test.path, token, test.more)
				time.Sleep(test.within)
				synctest.Wait()
				if reading, writing := limiter.InFlight(); reading+writing != 0 {
					t.Errorf("after %v, %d seats are held", test.within, reading+writing)
				}
				begun := time.Now()
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); answer.StatusCode != test.code || took > lateBody {
					t.Errorf("%d after %v", answer.StatusCode, took)
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Error(err)
				}
				conn.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("the connection stays: %v", err)
				}
			})
		})
	}
}

// TestUnsentBodiesOfHTTP2 announces bodies and does not send them: the response comes at once,
// because net/http does not wait for them.
func TestUnsentBodiesOfHTTP2(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", configMapPath, configMap("a", `,"data":{"a":"`+strings.Repeat("x", 2500)+`"}`))
	s.opts.Authorizer = readers{}
	listening := httptest.NewUnstartedServer(s)
	listening.EnableHTTP2 = true
	listening.StartTLS()
	defer listening.Close()
	for path, code := range map[string]int{
		"POST " + configMapPath + "/" + strings.Repeat("x", 1200) + "/foo": 403,
		"GET " + configMapPath + "/a":                                      200,
	} {
		method, path, _ := strings.Cut(path, " ")
		body, in := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), method, listening.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Impersonate-User", "bob")
		answer, err := listening.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != code || answer.ProtoMajor != 2 {
			t.Errorf("%s: %s %d, %v", method, answer.Proto, answer.StatusCode, err)
		}
		answer.Body.Close()
		in.Close()
	}
}
