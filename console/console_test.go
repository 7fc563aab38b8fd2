package console

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const own = "127.0.0.1:6443"

// echo is an API that shows the credentials of requests, and knows one token.
func echo(w http.ResponseWriter, r *http.Request) {
	if a := r.Header.Get("Authorization"); a != "" && a != "Bearer secret" {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, r.Header.Get("Authorization")+"|"+r.Header.Get("Cookie")+"|"+r.Header.Get(Header))
}

// browser sends requests as a page of the origin https://127.0.0.1:6443 does.
type browser struct {
	t       *testing.T
	console *Console
	cookie  string
	key     string
}

func (b *browser) send(method, path, body string, change ...func(*http.Request)) *http.Response {
	b.t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, "https://"+own+path, strings.NewReader(body))
	r.TLS = &tls.ConnectionState{}
	r.Header.Set("Origin", "https://"+own)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set(Header, b.key)
	if b.key == "" {
		r.Header.Set(Header, "none")
	}
	if b.cookie != "" {
		r.Header.Set("Cookie", "other=1; __Host-kapok-console-6443="+b.cookie)
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	b.console.ServeHTTP(w, r)
	return w.Result()
}

// redeem starts a session, and returns the status.
func (b *browser) redeem(link string) int {
	b.t.Helper()
	_, token, ok := strings.Cut(link, "?token=")
	if !ok {
		b.t.Fatalf("the link is %q", link)
	}
	resp := b.send("POST", "/console/session", `{"link":"`+token+`"}`)
	b.take(resp)
	return resp.StatusCode
}

func (b *browser) take(resp *http.Response) {
	b.t.Helper()
	if resp.StatusCode != http.StatusCreated {
		return
	}
	var got started
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		b.t.Fatal(err)
	}
	b.key, b.cookie = got.Key, resp.Cookies()[0].Value
}

func newBrowser(t *testing.T, opts Options) *browser {
	opts.API = http.HandlerFunc(echo)
	return &browser{t: t, console: New(opts)}
}

func (b *browser) link() string {
	b.t.Helper()
	link, err := b.console.Link("https://"+own, "secret")
	if err != nil {
		b.t.Fatal(err)
	}
	return link
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestSession(t *testing.T) {
	b := newBrowser(t, Options{})
	link := b.link()
	if code := b.redeem(link); code != http.StatusCreated {
		t.Fatalf("first use of the link: %d", code)
	}
	resp := b.send("GET", "/api/v1/pods", "")
	if got := text(t, resp); got != "Bearer secret|other=1|" {
		t.Errorf("the API sees %q, want the user's token, and neither cookie nor key", got)
	}
	if code := (&browser{t: t, console: b.console}).redeem(link); code != http.StatusUnauthorized {
		t.Errorf("second use of the link: %d, want 401", code)
	}
	if code := b.send("DELETE", "/console/session", "").StatusCode; code != http.StatusNoContent {
		t.Errorf("log out: %d", code)
	}
	if code := b.send("GET", "/api/v1/pods", "").StatusCode; code != http.StatusUnauthorized {
		t.Errorf("after the logout: %d, want 401", code)
	}
}

func TestCookie(t *testing.T) {
	b := newBrowser(t, Options{})
	_, token, _ := strings.Cut(b.link(), "?token=")
	c := b.send("POST", "/console/session", `{"link":"`+token+`"}`).Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Name != "__Host-kapok-console-6443" {
		t.Errorf("the cookie is %v", c)
	}
}

// TestToken checks sessions with a bearer token of a user.
func TestToken(t *testing.T) {
	b := newBrowser(t, Options{})
	with := func(token string) *http.Response {
		return b.send("POST", "/console/session", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	}
	if code := with("wrong").StatusCode; code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d, want 401", code)
	}
	b.take(with("secret"))
	if got := text(t, b.send("GET", "/api", "")); got != "Bearer secret|other=1|" {
		t.Errorf("the API sees %q", got)
	}
}

// TestAttacks sends requests with the cookie of a session, of which the API must see none.
func TestAttacks(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			if value == "" {
				r.Header.Del(name)
			} else {
				r.Header.Set(name, value)
			}
		}
	}
	host := func(host string) func(*http.Request) {
		return func(r *http.Request) { r.Host = host; r.Header.Del("Origin") }
	}
	b := newBrowser(t, Options{Hosts: func(name string) bool { return name == "kapok.example" }})
	if code := b.redeem(b.link()); code != http.StatusCreated {
		t.Fatal(code)
	}
	for _, tc := range []struct {
		name   string
		change func(*http.Request)
		code   int
	}{
		{"wrong key", header(Header, "AAAA"), 401},
		{"no cookie", header("Cookie", ""), 401},
		{"another cookie", header("Cookie", "__Host-kapok-console-6443=AAAA"), 401},
		{"the cookie of another port", header("Cookie", "__Host-kapok-console-6444="+b.cookie), 401},
		{"another origin", header("Origin", "https://evil.example"), 403},
		{"another port", header("Origin", "https://127.0.0.1:9999"), 403},
		{"http", header("Origin", "http://"+own), 403},
		{"no origin of its own", header("Origin", "null"), 403},
		{"another site", header("Sec-Fetch-Site", "cross-site"), 403},
		{"another port by Sec-Fetch-Site", header("Sec-Fetch-Site", "same-site"), 403},
		{"a navigation", header("Sec-Fetch-Site", "none"), 403},
		{"a name of an attacker", host("evil.example:6443"), 403},
		{"a name like an address", host("127.0.0.1.evil.example:6443"), 403},
		{"no host", host(""), 403},
		{"another name of the server", host("kapok.example:6443"), 401},
	} {
		if resp := b.send("GET", "/api", "", tc.change); resp.StatusCode != tc.code {
			t.Errorf("%s: %d, want %d: %s", tc.name, resp.StatusCode, tc.code, text(t, resp))
		}
	}
	// Without the header, as from forms, images and WebSockets of other pages, the cookie means
	// nothing.
	resp := b.send("GET", "/api", "", header(Header, ""), header("Upgrade", "websocket"), header("Connection", "Upgrade"))
	if got := text(t, resp); got != "|other=1|" {
		t.Errorf("with the cookie alone, the API sees %q", got)
	}
	if code := b.send("GET", "/api", "").StatusCode; code != http.StatusOK {
		t.Errorf("the session itself: %d", code)
	}
}

// TestLoginFromElsewhere checks that no other page can use a link or log the user out.
func TestLoginFromElsewhere(t *testing.T) {
	b := newBrowser(t, Options{})
	link := b.link()
	_, token, _ := strings.Cut(link, "?token=")
	for name, change := range map[string]func(*http.Request){
		"another origin":        func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"another site":          func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a form":                func(r *http.Request) { r.Header.Del(Header) },
		"a name of an attacker": func(r *http.Request) { r.Host = "evil.example"; r.Header.Del("Origin") },
	} {
		if code := b.send("POST", "/console/session", `{"link":"`+token+`"}`, change).StatusCode; code < 400 {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := b.redeem(link); code != http.StatusCreated {
		t.Errorf("the rejected requests have used the link: %d", code)
	}
	b.send("DELETE", "/console/session", "", func(r *http.Request) { r.Header.Set(Header, "wrong") })
	if code := b.send("GET", "/api", "").StatusCode; code != http.StatusOK {
		t.Errorf("a request with the cookie alone has ended the session: %d", code)
	}
	for _, body := range []string{"", "{", `{"link":""}`, `{"link":7}`, `{"link":"` + strings.Repeat("A", maxLogin) + `"}`} {
		if code := b.send("POST", "/console/session", body).StatusCode; code != 400 && code != 401 {
			t.Errorf("body of %d bytes: %d", len(body), code)
		}
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t, Options{})
		late := b.link()
		time.Sleep(linkLife)
		if code := b.redeem(late); code != http.StatusUnauthorized {
			t.Errorf("a link after ten minutes: %d, want 401", code)
		}
		b.redeem(b.link())
		status := func() int { return b.send("GET", "/api", "").StatusCode }
		for range 11 {
			time.Sleep(sessionIdle - time.Second)
			if code := status(); code != http.StatusOK {
				t.Fatalf("a session that is used: %d", code)
			}
		}
		time.Sleep(sessionIdle)
		if code := status(); code != http.StatusUnauthorized {
			t.Errorf("an idle session: %d, want 401", code)
		}
		b.redeem(b.link())
		for range 25 {
			time.Sleep(sessionLife / 25)
			status()
		}
		if code := status(); code != http.StatusUnauthorized {
			t.Errorf("a session after twelve hours: %d, want 401", code)
		}
	})
}

// TestWatchesEnd checks that requests which run when their session ends are cancelled.
func TestWatchesEnd(t *testing.T) {
	for name, end := range map[string]func(*browser){
		"by a logout": func(b *browser) { b.send("DELETE", "/console/session", "") },
		"by its age":  func(*browser) { time.Sleep(sessionLife) },
		"for a newer one": func(b *browser) {
			for range maxSessions {
				time.Sleep(time.Millisecond)
				b.console.sessions.start("", "")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBrowser(t, Options{})
				running, ended := make(chan struct{}), make(chan struct{})
				b.console.opts.API = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					close(running)
					<-r.Context().Done()
					close(ended)
				})
				b.redeem(b.link())
				go b.send("GET", "/api/v1/pods?watch=1", "")
				<-running
				synctest.Wait()
				select {
				case <-ended:
					t.Fatal("the watch has ended with the session running")
				default:
				}
				end(b)
				<-ended
				for cookie, one := range b.console.sessions.sessions {
					one.end() // their timers would outlive the bubble
					delete(b.console.sessions.sessions, cookie)
				}
			})
		})
	}
}

func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t, Options{})
		first := b.link()
		for range 2 * maxSessions {
			time.Sleep(time.Millisecond)
			b.redeem(b.link())
			b.link()
		}
		if n, m := len(b.console.sessions.sessions), len(b.console.sessions.links); n > maxSessions || m > maxSessions {
			t.Errorf("%d sessions and %d links, want at most %d", n, m, maxSessions)
		}
		if code := b.send("GET", "/api", "").StatusCode; code != http.StatusOK {
			t.Errorf("the newest session: %d", code)
		}
		if code := b.redeem(first); code != http.StatusUnauthorized {
			t.Errorf("the oldest link: %d", code)
		}
	})
}

// TestClosed checks that an API with credentials of its own is reached by sessions only.
func TestClosed(t *testing.T) {
	b := newBrowser(t, Options{Closed: true})
	for name, change := range map[string]func(*http.Request){
		"without a session": func(r *http.Request) { r.Header.Del(Header) },
		"with a token":      func(r *http.Request) { r.Header.Del(Header); r.Header.Set("Authorization", "Bearer secret") },
		"with a wrong key":  func(*http.Request) {},
	} {
		if code := b.send("GET", "/api", "", change).StatusCode; code != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", name, code)
		}
	}
	token := func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") }
	if code := b.send("POST", "/console/session", "{}", token).StatusCode; code != http.StatusUnauthorized {
		t.Errorf("a session by a token: %d, want 401", code)
	}
	link, err := b.console.Link("https://"+own, "")
	if err != nil {
		t.Fatal(err)
	}
	if b.redeem(link); b.send("GET", "/api", "").StatusCode != http.StatusOK {
		t.Error("the session is rejected")
	}
}

func TestFiles(t *testing.T) {
	b := newBrowser(t, Options{})
	for _, path := range []string{"/console", "/console/", "/console/apps/v1/deployments/a", "/console/../x"} {
		resp := b.send("GET", path, "")
		h := resp.Header
		if body := text(t, resp); resp.StatusCode != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/html") || !strings.Contains(body, "/console/assets/") {
			t.Errorf("%s: %d %s %.80s", path, resp.StatusCode, h.Get("Content-Type"), body)
		}
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "script-src 'self';") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: headers %v", path, h)
		}
		if strings.Contains(text(t, b.send("GET", path, "")), "<script>") {
			t.Errorf("%s has an inline script", path)
		}
	}
	script := ""
	for name := range files() {
		if strings.HasPrefix(name, "/assets/") && strings.HasSuffix(name, ".js") {
			script = "/console" + name
		}
	}
	resp := b.send("GET", script, "", func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	if resp.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %v", script, resp.Header)
	}
	again := b.send("GET", script, "", func(r *http.Request) {
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("If-None-Match", resp.Header.Get("ETag"))
	})
	if again.StatusCode != http.StatusNotModified || text(t, again) != "" {
		t.Errorf("%s with its ETag: %d", script, again.StatusCode)
	}
	if code := b.send("GET", "/console/assets/gone-AAAA.js", "").StatusCode; code != http.StatusNotFound {
		t.Errorf("a file of another version: %d, want 404", code)
	}
	if code := b.send("POST", "/console/", "").StatusCode; code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d, want 405", code)
	}
	if code := b.send("GET", "/console/", "", func(r *http.Request) { r.Host = "evil.example" }).StatusCode; code != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d, want 421", code)
	}
}

// TestFirstViewIsSmall checks the size of what a browser loads for the first view.
func TestFirstViewIsSmall(t *testing.T) {
	page := string(files()["/index.html"].plain)
	total := len(files()["/index.html"].zipped)
	for name, f := range files() {
		if strings.Contains(page, name) {
			total += len(f.zipped)
		}
	}
	t.Logf("%d bytes", total)
	if total < 10<<10 || total > 400<<10 {
		t.Errorf("the first view has %d bytes, want 10 to 400 KB", total)
	}
}
