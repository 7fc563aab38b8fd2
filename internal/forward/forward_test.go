package forward

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClearCredentials checks which headers another server gets.
func TestClearCredentials(t *testing.T) {
	header := http.Header{}
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-A", "x_remote_user",
		"Impersonate-User", "Impersonate-Extra-A", "impersonate_user", "Cookie", "X-Remote-Addr", "User-Agent",
	} {
		header[name] = []string{"x"}
	}
	ClearCredentials(header)
	if got := slices.Sorted(maps.Keys(header)); !slices.Equal(got, []string{"Cookie", "User-Agent", "X-Remote-Addr"}) {
		t.Errorf("%v is left", got)
	}
	for _, test := range []struct{ sent, want []string }{
		{nil, nil},
		{[]string{"a, b", "c"}, []string{"a, b", "c"}},
		{[]string{"base64url.bearer.authorization.k8s.io.Zg"}, nil},
		{[]string{"a,base64url.bearer.authorization.k8s.io.Zg,b"}, []string{"a, b"}},
		{[]string{"a", "BASE64URL.bearer.authorization.k8s.io.Zg ,", "b"}, []string{"a, b"}},
	} {
		header := http.Header{}
		if test.sent != nil {
			header["Sec-Websocket-Protocol"] = test.sent
		}
		if ClearCredentials(header); !slices.Equal(header["Sec-Websocket-Protocol"], test.want) {
			t.Errorf("%q becomes %q, want %q", test.sent, header["Sec-Websocket-Protocol"], test.want)
		}
	}
}

// TestIsUpgrade checks which requests ask for another protocol.
func TestIsUpgrade(t *testing.T) {
	for headers, want := range map[string]bool{
		"":                                  false,
		"Upgrade: x":                        false,
		"Connection: Upgrade":               false,
		"Connection: Upgrade;Upgrade: x":    true,
		"Connection: a, upgrade;Upgrade: x": true,
		"Connection: a;Connection: UPGRADE;Upgrade: x": true,
		"Connection: no-upgrade;Upgrade: x":            false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		for line := range strings.SplitSeq(headers, ";") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				r.Header.Add(name, value)
			}
		}
		if got := IsUpgrade(r); got != want {
			t.Errorf("%q: %t", headers, got)
		}
	}
}

// TestSwitchesUnasked lets a server switch protocols although the client has not asked for it: what
// the client sends next on the connection would go to that server.
func TestSwitchesUnasked(t *testing.T) {
	for _, headers := range []string{"Connection: Upgrade\r\nUpgrade: x\r\n", ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n" + headers + "\r\nhello"))
		}))
		dialer := NewDialer(nil)
		transports := dialer.Transports(&tls.Config{})
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Audit-Id", "own")
			(&Proxy{
				Transport: transports.For(r),
				Rewrite: func(q *httputil.ProxyRequest) {
					q.Out.URL.Scheme, q.Out.URL.Host = "http", strings.TrimPrefix(server.URL, "http://")
				},
				Fail: func(err error) { http.Error(w, err.Error(), http.StatusBadGateway) },
			}).ServeHTTP(w, r)
		}))
		answer, err := http.Get(front.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadGateway || answer.Header.Get("Audit-Id") != "own" {
			t.Errorf("%d with %v", answer.StatusCode, answer.Header)
		}
		http.DefaultClient.CloseIdleConnections()
		dialer.Close()
		front.Close()
		server.Close()
	}
}

// TestTraceParent checks that the other server gets the span of the request, not that of the
// client, and that the header of the client passes if the request has none.
func TestTraceParent(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Header.Get("traceparent")))
	}))
	defer other.Close()
	to, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	const client = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for want, ctx := range map[string]context.Context{
		client: t.Context(),
		"00-01000000000000000000000000000000-0200000000000000-01": trace.ContextWithSpanContext(t.Context(), span),
	} {
		p := &Proxy{Transport: transport, Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(to) }, Fail: func(err error) { t.Error(err) }}
		r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		r.Header.Set("traceparent", client)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if got := w.Body.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
