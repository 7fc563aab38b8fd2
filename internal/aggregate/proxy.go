package aggregate

import (
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/forward"

	"k8s.io/client-go/transport"
)

// discoveryTimeout bounds discovery requests: clients request all of them before they do anything
// else.
const discoveryTimeout = 5 * time.Second

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
	(&forward.Proxy{
		Transport: m.backend.For(r),
		Rewrite: func(p *httputil.ProxyRequest) {
			address(p, m.backend.scheme, host)
			introduce(p.Out, user)
		},
		Receive: refuseRedirect,
		Fail: func(failure error) {
			if err = r.Context().Err(); err == nil {
				http.Error(w, failure.Error(), http.StatusServiceUnavailable)
			}
		},
	}).ServeHTTP(w, out)
	return err
}

// address sets the host of the outgoing request. The path is the authorized one, decoded and
// encoded again, so that no other server can read it differently.
func address(p *httputil.ProxyRequest, scheme, host string) {
	p.Out.URL = &url.URL{Scheme: scheme, Host: host, Path: p.In.URL.Path, RawQuery: p.In.URL.Query().Encode()}
	p.Out.Host = host
}

// introduce sets the headers that name the user. The request has none of its own.
func introduce(r *http.Request, user *authn.User) {
	transport.SetAuthProxyHeaders(r, user.Name, user.UID, user.Groups, user.Extra)
}

// refuseRedirect replaces a redirect by an error: the client must not be sent elsewhere.
func refuseRedirect(answer *http.Response) error {
	if code := answer.StatusCode; code < 300 || code > 399 || answer.Header.Get("Location") == "" {
		return nil
	}
	answer.Body.Close()
	const refusal = "the backend attempted to redirect this request, which is not permitted"
	answer.StatusCode, answer.Status = http.StatusBadGateway, ""
	answer.Header, answer.Trailer = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, nil
	answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(refusal)), int64(len(refusal))
	return nil
}
