// Package console is a web page that shows the objects of a Kubernetes API server, and lets a
// browser log in to it.
//
// The page is in dist, which is built from web and embedded. It uses only the API of Kubernetes. A
// [Console] is a handler in front of an API server: it serves the page below /console, and gives
// the requests of the page the credentials of their session. It never answers a request of the API
// itself unless it rejects it.
//
// # Sessions
//
// A session starts with a link ([Console.Link]), which works once and for ten minutes, or with a
// bearer token that the API server accepts. A [Provider] gives the user such a token: a login by it
// ends with a link. A session has two secrets. One is in a cookie that scripts
// cannot read and that pages of other sites cannot send. The other, the key, is in the local
// storage of the page, and each of its requests has it in the header [Header]. A request needs
// both: browsers send cookies to all ports of a host, so that another program on the machine may
// see the cookie, but not the key, and a page of another origin cannot set the header. A cookie
// without the header is ignored.
//
// Scripts cannot set headers of a WebSocket: there the key is a protocol that begins with
// [Protocol], and the request must have the Origin of the page, which browsers always send.
//
// A session is bound to the host and port that it was started at, and ends after an hour without a
// request, after twelve hours, when the user logs out, and with the process. It stores the bearer
// token of the user, and so has the user's rights, checked by each request; a token that is revoked
// ends it.
//
// # Concurrency
//
// A Console is safe for concurrent use. It starts no goroutine; expired links and sessions are
// removed when others are added.
package console

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Path is the path of the page. The page and its files are below it.
const Path = "/console"

// Header is the header with the key of the session.
const Header = "X-Kapok-Console"

// Protocol begins the WebSocket protocol that has the key of the session in place of [Header]. API
// does not see it.
const Protocol = "key.console.kapok.dev."

// Options configure a Console.
type Options struct {
	// API serves all paths that are not below Path.
	API http.Handler
	// Hosts reports whether a name is a name of this server, and protects against DNS rebinding. IP
	// addresses and localhost always are. Default: no other names are.
	Hosts func(name string) bool
	// Closed rejects requests to API without a session. It is for an API that has the user's
	// credentials itself. Default: such requests are passed on without credentials of a session.
	Closed bool
	// Provider logs users in. It must be valid. Default: users need a link or a bearer token.
	Provider *Provider
}

// Console serves the page, and API requests of the page. Make one with [New].
type Console struct {
	opts     Options
	sessions sessions
	logins   *logins // nil without a Provider
}

// New returns a Console.
func New(opts Options) *Console {
	c := &Console{opts: opts, sessions: newSessions()}
	if opts.Provider != nil {
		c.logins = newLogins(*opts.Provider)
	}
	return c
}

// Link returns the address of the page at a base, such as https://127.0.0.1:6443, with a token that
// starts one session with the bearer token of a user. The bearer token is "" if API needs none.
func (c *Console) Link(base, bearer string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u.Path, u.RawQuery = Path, url.Values{"token": {c.sessions.link(bearer)}}.Encode()
	return u.String(), nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == Path || strings.HasPrefix(r.URL.Path, Path+"/") {
		c.servePage(w, r)
		return
	}
	key := takeKey(r)
	cookie := takeCookie(r)
	switch {
	case key == "" && c.opts.Closed:
		Refuse(w, apierrors.NewUnauthorized("the request has no session of the console"))
		return
	case key != "":
		found, err := c.identify(r, cookie, key)
		if err != nil {
			Refuse(w, err)
			return
		}
		if found.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+found.bearer)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(found.ctx, cancel)()
		r = r.WithContext(ctx)
	}
	c.opts.API.ServeHTTP(w, r)
}

// identify returns the session that a request of the page belongs to.
func (c *Console) identify(r *http.Request, cookie, key string) (*session, *apierrors.StatusError) {
	if err := c.checkOrigin(r); err != nil {
		return nil, err
	}
	if isWebSocket(r) && r.Header.Get("Origin") == "" {
		return nil, forbidden("the request for a WebSocket has no origin")
	}
	found := c.sessions.use(cookie, key, origin(r))
	if found == nil {
		return nil, apierrors.NewUnauthorized("the session of the console has ended")
	}
	return found, nil
}

// servePage serves the paths below Path.
func (c *Console) servePage(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if !c.isOwnHost(r.Host) {
		http.Error(w, "the host of the address is not a name of this server", http.StatusMisdirectedRequest)
		return
	}
	if r.URL.Path == Path+"/session" {
		c.serveSession(w, r)
		return
	}
	if c.logins != nil && c.logins.serve(c, w, r) {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	serveFile(w, r, strings.TrimPrefix(r.URL.Path, Path))
}

// checkOrigin returns an error if a request is not from the page of this server.
func (c *Console) checkOrigin(r *http.Request) *apierrors.StatusError {
	if !c.isOwnHost(r.Host) {
		return forbidden("the host of the request is not a name of this server")
	}
	if from := r.Header.Get("Origin"); from != "" && from != origin(r) {
		return forbidden("the request is from another origin")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return forbidden("the request is from another site")
	}
	return nil
}

func forbidden(reason string) *apierrors.StatusError {
	err := apierrors.NewUnauthorized(reason)
	err.ErrStatus.Code, err.ErrStatus.Reason = http.StatusForbidden, "Forbidden"
	return err
}

// isOwnHost reports whether the Host of a request is an address, which DNS cannot change, or a name
// of the server.
func (c *Console) isOwnHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return true
	}
	return c.opts.Hosts != nil && name != "" && c.opts.Hosts(strings.ToLower(name))
}

// origin returns the origin of pages at the host of the request, as browsers write it.
func origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Refuse responds with a Status, as the API server does.
func Refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client has gone if it fails
}
