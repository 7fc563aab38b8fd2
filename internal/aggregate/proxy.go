package aggregate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	"k8s.io/client-go/transport"
)

// discoveryTimeout bounds discovery requests: clients request all of them before they do anything
// else.
const discoveryTimeout = 5 * time.Second

// ErrEnding is the cancellation cause of a request whose streamed response must end as if it were
// complete.
var ErrEnding = errors.New("the server ends its streams")

// Serve proxies a request on behalf of the user who sent it, and returns when the response is
// complete. The error is that of the request's context, if that was done before the response began;
// the caller must respond then.
func (m *Remote) Serve(w http.ResponseWriter, r *http.Request, user *authn.User) (err error) {
	if !m.available {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return nil
	}
	if m.backend.broken != nil {
		http.Error(w, m.backend.broken.Error(), http.StatusInternalServerError)
		return nil
	}
	if user == nil {
		http.Error(w, "missing user", http.StatusInternalServerError)
		return nil
	}
	host, err := m.backend.resolve()
	if err != nil {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return nil
	}
	out := r
	if strings.Count(strings.Trim(r.URL.Path, "/"), "/") == 2 {
		ctx, cancel := context.WithTimeout(r.Context(), discoveryTimeout)
		defer cancel()
		out = r.WithContext(ctx)
	}
	upgrade := isUpgrade(r)
	by := m.backend.plain
	if upgrade {
		by = m.backend.upgrades
	}
	(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			address(p, host)
			introduce(p.Out, user)
		},
		Transport:      by,
		FlushInterval:  -1, // events must not wait for further bytes
		ModifyResponse: func(answer *http.Response) error { return receive(w.Header(), answer, upgrade) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, failure error) {
			if err = r.Context().Err(); err == nil {
				http.Error(w, failure.Error(), http.StatusServiceUnavailable)
			}
		},
		ErrorLog: log.New(io.Discard, "", 0), // drops errors about connections that either side closed
	}).ServeHTTP(w, out)
	return err
}

// address sets the host of the outgoing request. The path is the authorized one, decoded and
// encoded again, so that no other server can read it differently.
func address(p *httputil.ProxyRequest, host string) {
	p.Out.URL = &url.URL{Scheme: "https", Host: host, Path: p.In.URL.Path, RawQuery: p.In.URL.Query().Encode()}
	p.Out.Host = host
	if client, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		if before := p.In.Header["X-Forwarded-For"]; len(before) > 0 {
			client = strings.Join(before, ", ") + ", " + client
		}
		p.Out.Header.Set("X-Forwarded-For", client)
	}
}

// introduce sets the headers that name the user, after removing those of the client.
func introduce(r *http.Request, user *authn.User) {
	for name := range r.Header {
		if speaksOfUsers(name) {
			delete(r.Header, name)
		}
	}
	transport.SetAuthProxyHeaders(r, user.Name, user.UID, user.Groups, user.Extra)
}

// speaksOfUsers reports whether a header can name the user of a request. Some servers take an
// underscore for a hyphen.
func speaksOfUsers(header string) bool {
	name := strings.ReplaceAll(strings.ToLower(header), "_", "-")
	switch name {
	case "authorization", "x-remote-user", "x-remote-uid", "x-remote-group":
		return true
	}
	return strings.HasPrefix(name, "x-remote-extra-") || strings.HasPrefix(name, "impersonate-")
}

// receive rejects redirects and failed upgrades, and removes the headers that this server sets
// itself.
func receive(own http.Header, answer *http.Response, upgrade bool) error {
	if code := answer.StatusCode; code >= 300 && code <= 399 && answer.Header.Get("Location") != "" {
		answer.Body.Close()
		const refusal = "the backend attempted to redirect this request, which is not permitted"
		answer.StatusCode, answer.Status = http.StatusBadGateway, ""
		answer.Header, answer.Trailer = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, nil
		answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(refusal)), int64(len(refusal))
		return nil
	}
	if upgrade && answer.StatusCode != http.StatusSwitchingProtocols && answer.StatusCode < 400 {
		return fmt.Errorf("invalid upgrade response: status code %d", answer.StatusCode)
	}
	for name := range answer.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(answer.Header, name)
		}
	}
	answer.Header.Del("Audit-Id") // this server's value is the same
	if answer.Header.Get("Cache-Control") != "" {
		own.Del("Cache-Control")
	}
	if answer.StatusCode != http.StatusSwitchingProtocols { // then the body is the connection
		answer.Body = &stream{answer.Body, answer.Request.Context()}
	}
	return nil
}

// A stream is the body of a response, which ends with io.EOF if the request is cancelled with
// ErrEnding.
type stream struct {
	io.ReadCloser
	ctx context.Context
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && context.Cause(s.ctx) == ErrEnding {
		err = io.EOF
	}
	return n, err
}

// isUpgrade reports whether a request asks for another protocol.
func isUpgrade(r *http.Request) bool {
	for _, h := range r.Header["Connection"] {
		if strings.Contains(strings.ToLower(h), "upgrade") {
			return true
		}
	}
	return false
}
