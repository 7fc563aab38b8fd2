package aggregate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/forward"

	"github.com/google/go-cmp/cmp"
)

const thingsPath = "/apis/things.example.com/v1"

// TestRequestsPassOn checks that the other server gets the authorized path, and the user whom this
// server authenticated.
func TestRequestsPassOn(t *testing.T) {
	type seen struct {
		Method, URI, Host, Body string
		Header                  http.Header
		Proxy                   string // the common name of the client's certificate
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.serve("things.test:8443", "things.default.svc", func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("X-Remote-User"), "system:") {
				return
			}
			body, _ := io.ReadAll(r.Body)
			s := seen{r.Method, r.RequestURI, r.Host, string(body), r.Header, ""}
			if len(r.TLS.PeerCertificates) > 0 {
				s.Proxy = r.TLS.PeerCertificates[0].Subject.CommonName
			}
			rw.Header().Set("Access-Control-Allow-Origin", "*")
			rw.Header().Set("Audit-Id", "x")
			rw.Header().Set("Warning", `299 - "careful"`)
			rw.WriteHeader(http.StatusTeapot)
			json.NewEncoder(rw).Encode(s)
		})
		w.things()
		client := w.front()
		ask := func(method, path, body string, headers ...string) (seen, http.Header) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, "http://front", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Opaque = "http://front" + path // a path that is not normalised by the client
			for i := 0; i < len(headers); i += 2 {
				r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			var s seen
			if err := json.NewDecoder(answer.Body).Decode(&s); err != nil || answer.StatusCode != http.StatusTeapot {
				t.Fatalf("%s: %s, %v", path, answer.Status, err)
			}
			return s, answer.Header
		}

		s, answer := ask("PUT", thingsPath+"/namespaces/n/things/a?z=1&a=%26b&dryRun=All", "hello", "Content-Type", "application/json")
		if s.Method != "PUT" || s.Body != "hello" || s.Host != "things.test:8443" || s.Proxy != "front-proxy-client" ||
			s.URI != thingsPath+"/namespaces/n/things/a?a=%26b&dryRun=All&z=1" || s.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %+v", s)
		}
		if answer.Get("Access-Control-Allow-Origin") != "" || answer.Get("Audit-Id") != "" || answer.Get("Warning") == "" {
			t.Errorf("the answer has the header %v", answer)
		}

		user := http.Header{
			"X-Remote-User": {"alice"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"staff", "system:authenticated"},
			"X-Remote-Extra-Example.com%2fwhy": {"a b"},
		}
		s, _ = ask("GET", thingsPath+"/things", "",
			"X-Remote-User", "root", "X-Remote-User", "admin", "x-remote-user", "lower", "X_Remote_User", "underscore",
			"X-Remote-Group", "system:masters", "x-ReMoTe-GrOuP", "system:masters", "X-Remote_Group", "system:masters",
			"X-Remote-Uid", "0", "X-Remote-Extra-Scopes", "all", "X-Remote-Extra-Example.com%2fwhy", "for fun",
			"Impersonate-User", "root", "Impersonate-Group", "system:masters", "Impersonate_User", "root", "Impersonate-Extra-A", "b",
			"Authorization", "Bearer secret", "Connection", "X-Remote-User, X-Remote-Group")
		got := http.Header{}
		for name, values := range s.Header {
			lower := strings.ToLower(name)
			for _, word := range []string{"remote", "impersonate", "authorization"} {
				if strings.Contains(lower, word) {
					got[name] = values
				}
			}
		}
		if diff := cmp.Diff(user, got); diff != "" {
			t.Errorf("user (-want +got):\n%s", diff)
		}

		for path, want := range map[string]string{
			thingsPath:                        thingsPath,
			thingsPath + "/":                  thingsPath + "/",
			thingsPath + "/a%2Fb":             thingsPath + "/a/b",
			thingsPath + "/../v2/b":           thingsPath + "/../v2/b",
			thingsPath + "/%2e%2e/%2E%2e/b":   thingsPath + "/../../b",
			thingsPath + "//b":                thingsPath + "//b",
			thingsPath + "/a%3Fb%23c%20%25":   thingsPath + "/a%3Fb%23c%20%25",
			thingsPath + "/a;b=c":             thingsPath + "/a;b=c",
			thingsPath + "/a%0d%0aX-Y:%20z":   thingsPath + "/a%0D%0AX-Y:%20z",
			"/%61pis/things.example.com/v1/a": thingsPath + "/a",
		} {
			if s, _ := ask("GET", path, ""); s.URI != want {
				t.Errorf("%s is proxied as %s, want %s", path, s.URI, want)
			}
		}
	})
}

// TestOtherPaths checks paths that resemble those of another server.
func TestOtherPaths(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.serve("things.test:8443", "things.default.svc", func(http.ResponseWriter, *http.Request) {})
		w.things()
		for _, path := range []string{
			"/apis/things.example.com", "/apis/things.example.com/", "/apis/things.example.com/v10", "/apis/things.example.com/v1x/a",
			"/apis//things.example.com/v1", "//apis/things.example.com/v1", "/apis/x/../things.example.com/v1", "/api/things.example.com/v1",
			"/apis/THINGS.example.com/v1", "/api", "/api/v1", "/apis", "/apis/", "", "/", "/apiservices",
		} {
			if m := w.aggregator.Load().Find(path); m != nil {
				t.Errorf("%q is served by %v", path, m.GroupVersion)
			}
		}
	})
}

// TestFailures checks the status codes and messages of failures, which are those of Kubernetes.
func TestFailures(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.register("v1")
		client := w.front()
		want := func(path string, code int, text string) {
			t.Helper()
			gotCode, got, header := w.get(client, path)
			if gotCode != code || strings.TrimSpace(got) != text || header.Get("Location") != "" {
				t.Errorf("%s: %d %s, want %d %s", path, gotCode, got, code, text)
			}
		}
		want(thingsPath, 503, "service unavailable") // there is no service

		stop := w.serve("things.test:8443", "things.default.svc", func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case thingsPath + "/elsewhere":
				http.Redirect(rw, r, "https://evil.example.com/", http.StatusTemporaryRedirect)
			case thingsPath + "/unchanged":
				rw.WriteHeader(http.StatusNotModified)
			case thingsPath + "/broken":
				rw.Header().Set("Content-Length", "100")
				io.WriteString(rw, "half an")
			case thingsPath + "/aborted":
				panic(http.ErrAbortHandler)
			case thingsPath + "/slow":
				<-r.Context().Done()
			}
		})
		w.put(thingsService)
		w.wantCondition(passed)
		want(thingsPath, 200, "")
		want(thingsPath+"/elsewhere", 502, "the backend attempted to redirect this request, which is not permitted")
		want(thingsPath+"/unchanged", 304, "")
		if code, text, _ := w.get(client, thingsPath+"/broken"); code != 200 || !strings.Contains(text, "unexpected EOF") {
			t.Errorf("a response that breaks off is %d %q", code, text)
		}
		if code, _, _ := w.get(client, thingsPath+"/aborted"); code != 503 {
			t.Errorf("without a response the code is %d", code)
		}

		// The deadline of the request holds, and no shorter one.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://front"+thingsPath+"/slow", nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		recorder := &quiet{header: http.Header{}}
		if err := w.aggregator.Load().Find(thingsPath).Serve(recorder, r, &authn.User{Name: "a"}); err != context.DeadlineExceeded || recorder.code != 0 {
			t.Errorf("a slow response gives %v, %d", err, recorder.code)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("it took %v", took)
		}

		time.Sleep(time.Second)
		stop()
		want(thingsPath+"/a", 503, "connection refused") // the endpoint is gone, but no probe has noticed yet
		time.Sleep(time.Minute)
		want(thingsPath+"/a", 503, "service unavailable")
	})
}

type quiet struct {
	header http.Header
	code   int
}

func (q *quiet) Header() http.Header         { return q.header }
func (q *quiet) Write(b []byte) (int, error) { return len(b), nil }
func (q *quiet) WriteHeader(code int)        { q.code = code }

// TestSlowDiscovery checks that discovery requests have a short deadline.
func TestSlowDiscovery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		slow := false
		w.serve("things.test:8443", "things.default.svc", func(_ http.ResponseWriter, r *http.Request) {
			if slow {
				<-r.Context().Done()
			}
		})
		w.things()
		w.wantCondition(passed)
		slow = true
		begin := time.Now()
		code, text, _ := w.get(w.front(), thingsPath)
		if took := time.Since(begin); code != 503 || !strings.Contains(text, "context deadline exceeded") || took != 5*time.Second {
			t.Errorf("after %v: %d %s", took, code, text)
		}
	})
}

// TestBrokenBundle checks the error for a CA bundle without certificates.
func TestBrokenBundle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(thingsService)
		w.put(`{kind: APIService, metadata: {name: v1.things.example.com}, spec: {group: things.example.com, version: v1,
			groupPriorityMinimum: 900, versionPriority: 20, caBundle: YQ==, service: {namespace: default, name: things}}}`)
		time.Sleep(time.Minute)
		w.wantCondition("")
	})
}

// TestWatch checks that events arrive without delay, and that the stream ends cleanly when the
// server ends it.
func TestWatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		events := make(chan string)
		w.serve("things.test:8443", "things.default.svc", func(rw http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("watch") {
				return
			}
			for {
				select {
				case event := <-events:
					fmt.Fprintln(rw, event)
					http.NewResponseController(rw).Flush()
				case <-r.Context().Done():
					return
				}
			}
		})
		w.things()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		w.listen("front:80", func(rw http.ResponseWriter, r *http.Request) {
			_ = w.aggregator.Load().Find(r.URL.Path).Serve(rw, r.WithContext(ctx), &authn.User{Name: "alice"})
		}, nil)
		conn, err := w.dial(t.Context(), "tcp", "front:80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s/things?watch HTTP/1.1\r\nHost: front\r\n\r\n", thingsPath)
		events <- "one"
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		next := lines(answer.Body)
		if got := next(); got != "one" {
			t.Errorf("got %q", got)
		}
		time.Sleep(time.Hour)
		events <- "two"
		if got := next(); got != "two" {
			t.Errorf("got %q", got)
		}
		cancel(forward.ErrEnding)
		if got := next(); got != "EOF" {
			t.Errorf("the stream ends with %q", got)
		}
	})
}

// TestUpgrade checks that an upgraded connection carries bytes in both directions until either side
// closes it.
func TestUpgrade(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var user []string
		w.serve("things.test:8443", "things.default.svc", func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case thingsPath + "/echo":
				user = append(user, r.Header.Get("X-Remote-User")+" "+r.Proto+" "+r.Header.Get("Sec-WebSocket-Protocol"))
				conn, rest, err := http.NewResponseController(rw).Hijack()
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Stream-Protocol-Version: v4\r\n\r\n", r.Header.Get("Upgrade"))
				io.Copy(conn, rest)
			case thingsPath + "/no":
				http.Error(rw, "not for you", http.StatusForbidden)
			}
		})
		w.things()
		w.front()
		dial := func(path, protocol string) (net.Conn, *bufio.Reader, *http.Response) {
			t.Helper()
			conn, err := w.dial(t.Context(), "tcp", "front:80")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Remote-User: root\r\n"+
				"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.Zg, chat\r\n\r\n", path, protocol)
			r := bufio.NewReader(conn)
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			return conn, r, answer
		}
		for _, protocol := range []string{"SPDY/3.1", "websocket"} {
			conn, r, answer := dial(thingsPath+"/echo", protocol)
			if answer.StatusCode != 101 || answer.Header.Get("Upgrade") != protocol || answer.Header.Get("X-Stream-Protocol-Version") != "v4" {
				t.Fatalf("%s: %v", protocol, answer)
			}
			for _, word := range []string{"ping", strings.Repeat("x", 100_000)} {
				go fmt.Fprintln(conn, word)
				if got, err := r.ReadString('\n'); err != nil || got != word+"\n" {
					t.Errorf("%s: %d bytes, %v", protocol, len(got), err)
				}
			}
			conn.Close()
			synctest.Wait()
		}
		if want := []string{"alice HTTP/1.1 chat", "alice HTTP/1.1 chat"}; !slices.Equal(user, want) {
			t.Errorf("upgrades as user %q, want %q", user, want)
		}
		for path, want := range map[string]string{
			"/no":      "403 not for you",
			"/neither": "503 invalid upgrade response: status code 200",
		} {
			conn, _, answer := dial(thingsPath+path, "SPDY/3.1")
			body, _ := io.ReadAll(answer.Body)
			if got := fmt.Sprintf("%d %s", answer.StatusCode, strings.TrimSpace(string(body))); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
			conn.Close()
		}
	})
}
