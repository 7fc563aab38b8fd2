package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/kapok-dev/kapok/internal/forward"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Serve passes an authorized request for exec, attach, portforward or proxy on to its target, and
// returns when the response is complete or the connection has ended. fail responds with an error;
// it is not called once the connection of the client has been taken over.
func (c *Connector) Serve(w http.ResponseWriter, r *http.Request, t *Target, fail func(error)) {
	upgrade := forward.IsUpgrade(r)
	switch {
	case !t.Proxied && !upgrade:
		fail(apierrors.NewBadRequest("Upgrade request required"))
		return
	case t.Proxied && !upgrade:
		if redirectToSlash(w, r, t) {
			return
		}
	}
	by := &remembering{RoundTripper: c.transport(t, r)}
	p := &forward.Proxy{
		Transport: by,
		Rewrite:   func(q *httputil.ProxyRequest) { q.Out.URL = t.URL },
		Fail: func(err error) {
			switch cause := by.err; {
			case r.Context().Err() != nil:
				err = r.Context().Err()
			case errors.Is(cause, errNotAllowed):
				err = apierrors.NewBadRequest(errNotAllowed.Error())
			case cause != nil && upgrade:
				err = fmt.Errorf("error dialing backend: %w", cause)
			}
			fail(err)
		},
	}
	if t.Proxied && !upgrade {
		to := *t.URL
		to.RawQuery = r.URL.RawQuery
		if strings.HasSuffix(r.URL.Path, "/") && !strings.HasSuffix(to.Path, "/") {
			to.Path += "/"
		}
		p.Rewrite = func(q *httputil.ProxyRequest) { q.Out.URL = &to }
		p.Transport = &rewriting{by: by, prefix: prefixOf(r.URL.Path, t.URL.Path)}
	}
	p.ServeHTTP(w, r)
}

// redirectToSlash redirects a client that reads the root of a target without a slash at the end:
// relative links in the response would be wrong.
func redirectToSlash(w http.ResponseWriter, r *http.Request, t *Target) bool {
	if t.URL.Path != "" || strings.HasSuffix(r.URL.Path, "/") || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	// Two slashes at the start would be followed by the name of a server.
	to := url.URL{Path: "/" + strings.Trim(r.URL.Path, "/") + "/", RawQuery: r.URL.RawQuery}
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusMovedPermanently)
	return true
}

// prefixOf returns the path of a proxy: that of the request without the path behind the proxy.
func prefixOf(path, behind string) string {
	if strings.HasSuffix(path, "/") && !strings.HasSuffix(behind, "/") {
		behind += "/"
	}
	return strings.TrimSuffix(path, behind)
}

// remembering is a transport for one request, which keeps its error.
type remembering struct {
	http.RoundTripper
	err error
}

// RoundTrip implements http.RoundTripper.
func (m *remembering) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := m.RoundTripper.RoundTrip(r)
	m.err = err
	return answer, err
}

// Log reads a log from a kubelet, and returns when it has ended. It sends no header of the client.
// The error is that of a request to which no response has begun.
func (c *Connector) Log(w http.ResponseWriter, r *http.Request, t *Target) error {
	if t == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	to, err := http.NewRequestWithContext(r.Context(), http.MethodGet, t.URL.String(), nil)
	if err != nil {
		return err
	}
	answer, err := c.transport(t, to).RoundTrip(to)
	if err != nil {
		return logError(r.Context(), t, err)
	}
	defer answer.Body.Close()
	if err := checkLog(answer, t); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	_ = out.Flush() // fails if the client has gone, as the next write does
	if t.Flush {
		_, _ = io.Copy(&flushing{w, out}, answer.Body)
	} else {
		_, _ = io.Copy(struct{ io.Writer }{w}, answer.Body)
	}
	return nil // as in Kubernetes, a log that ends early ends
}

func logError(ctx context.Context, t *Target, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errNotAllowed):
		return apierrors.NewBadRequest(errNotAllowed.Error())
	}
	return &url.Error{Op: "Get", URL: t.URL.String(), Err: err}
}

// longestError is the maximum length of the message of a kubelet, in bytes, that is passed on.
const longestError = 50000

// checkLog returns the error of a kubelet as a Status.
func checkLog(answer *http.Response, t *Target) error {
	code := answer.StatusCode
	switch {
	case code >= 200 && code <= 206:
		return nil
	case code >= 300 && code <= 399 && answer.Header.Get("Location") != "":
		return &url.Error{Op: "Get", URL: t.URL.String(), Err: errors.New("redirects forbidden")}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestError))
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case code == http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(string(text)))
	case code == http.StatusBadRequest:
		return apierrors.NewBadRequest(string(text))
	}
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{Resource: "pods/log"}, t.Name, string(text), 0, false)
}

// flushing sends each part of a response as it is written.
type flushing struct {
	io.Writer
	out *http.ResponseController
}

// Write implements io.Writer.
func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
