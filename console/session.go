package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	linkLife    = 10 * time.Minute
	sessionIdle = time.Hour
	sessionLife = 12 * time.Hour

	// maxSessions bounds links and sessions; the oldest ends when there are more.
	maxSessions = 256
	// maxLogin bounds the body of a request that starts a session.
	maxLogin = 16 << 10
)

// sum is the hash of a secret. Secrets themselves are not stored, and a lookup by hash does not
// show by its time how much of a guess is right.
type sum [sha256.Size]byte

func sumOf(secret string) sum { return sha256.Sum256([]byte(secret)) }

// sessions are the links and sessions of a Console.
type sessions struct {
	mu       sync.Mutex
	links    map[sum]link     // by token
	sessions map[sum]*session // by cookie
}

type link struct {
	bearer string
	made   time.Time
}

type session struct {
	key    sum
	origin string
	bearer string
	made   time.Time
	used   time.Time
	ctx    context.Context // done when the session has ended; its requests end with it
	end    context.CancelFunc
}

func newSessions() sessions {
	return sessions{links: map[sum]link{}, sessions: map[sum]*session{}}
}

// link returns a token that starts one session.
func (s *sessions) link(bearer string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	token := rand.Text()
	s.links[sumOf(token)] = link{bearer: bearer, made: time.Now()}
	dropOldest(s.links, func(l link) time.Time { return l.made })
	return token
}

// redeem returns the bearer token of a link, which it removes.
func (s *sessions) redeem(token string) (bearer string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	found, ok := s.links[sumOf(token)]
	delete(s.links, sumOf(token))
	return found.bearer, ok
}

// start returns the two secrets of a new session at an origin.
func (s *sessions) start(bearer, origin string) (cookie, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	cookie, key = rand.Text(), rand.Text()
	now := time.Now()
	one := &session{key: sumOf(key), origin: origin, bearer: bearer, made: now, used: now}
	one.ctx, one.end = context.WithTimeout(context.Background(), sessionLife)
	s.sessions[sumOf(cookie)] = one
	if oldest, dropped := dropOldest(s.sessions, func(s *session) time.Time { return s.used }); dropped {
		oldest.end()
	}
	return cookie, key
}

// use returns the session with both secrets, and postpones its end; nil if there is none.
func (s *sessions) use(cookie, key, origin string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sessions[sumOf(cookie)]
	given := sumOf(key)
	if found == nil || found.ended(time.Now()) || subtle.ConstantTimeCompare(found.key[:], given[:]) != 1 || found.origin != origin {
		return nil
	}
	found.used = time.Now()
	return found
}

// end ends the session with a cookie.
func (s *sessions) end(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[sumOf(cookie)]; found != nil {
		found.end()
		delete(s.sessions, sumOf(cookie))
	}
}

func (s *session) ended(now time.Time) bool {
	return now.Sub(s.used) >= sessionIdle || now.Sub(s.made) >= sessionLife
}

func (s *sessions) expireLocked() {
	now := time.Now()
	for token, l := range s.links {
		if now.Sub(l.made) >= linkLife {
			delete(s.links, token)
		}
	}
	for cookie, one := range s.sessions {
		if one.ended(now) {
			one.end()
			delete(s.sessions, cookie)
		}
	}
}

// dropOldest removes the oldest entry, and returns it, if there are more than maxSessions.
func dropOldest[T any](all map[sum]T, age func(T) time.Time) (dropped T, ok bool) {
	if len(all) <= maxSessions {
		return dropped, false
	}
	var oldest sum
	var when time.Time
	for k, one := range all {
		if at := age(one); when.IsZero() || at.Before(when) {
			oldest, when = k, at
		}
	}
	dropped = all[oldest]
	delete(all, oldest)
	return dropped, true
}

// login is the body of a request that starts a session; without a link, the request has a bearer
// token in its header.
type login struct {
	Link string `json:"link,omitempty"`
}

// ways is the response to a page that asks how users can log in.
type ways struct {
	// Provider is the issuer of an OpenID Connect provider; empty if there is none.
	Provider string `json:"provider,omitempty"`
}

// started is the response.
type started struct {
	Key string `json:"key"`
}

// serveSession starts a session (POST), ends it (DELETE), or tells how one starts (GET).
func (c *Console) serveSession(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if err := c.checkOrigin(r); err != nil {
		Refuse(w, err)
		return
	}
	// Pages of other origins send this header only after a preflight, which fails.
	if r.Header.Get(Header) == "" {
		Refuse(w, apierrors.NewUnauthorized("the request lacks the header "+Header))
		return
	}
	cookie := takeCookie(r)
	switch r.Method {
	case http.MethodGet:
		var all ways
		if c.logins != nil {
			all.Provider = c.opts.Provider.Issuer
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(all) // the client has gone if it fails
	case http.MethodPost:
		bearer, err := c.authenticate(w, r)
		if err != nil {
			Refuse(w, err)
			return
		}
		cookie, key := c.sessions.start(bearer, origin(r))
		http.SetCookie(w, newCookie(r, cookie, int(sessionLife/time.Second)))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(started{Key: key}) // the client has gone if it fails
	case http.MethodDelete:
		if c.sessions.use(cookie, r.Header.Get(Header), origin(r)) != nil {
			c.sessions.end(cookie)
		}
		http.SetCookie(w, newCookie(r, "", -1))
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// authenticate returns the bearer token of a new session.
func (c *Console) authenticate(w http.ResponseWriter, r *http.Request) (string, *apierrors.StatusError) {
	bearer, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if given && !c.opts.Closed {
		if !c.accepts(r, bearer) {
			return "", apierrors.NewUnauthorized("the server does not accept this token")
		}
		return bearer, nil
	}
	var in login
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLogin)).Decode(&in); err != nil {
		return "", apierrors.NewBadRequest("the body must be a JSON object with the token of a link")
	}
	bearer, ok := c.sessions.redeem(in.Link)
	if !ok {
		return "", apierrors.NewUnauthorized("the link has been used, or has expired")
	}
	return bearer, nil
}

// accepts reports whether API accepts a bearer token: it returns 401 for an invalid one on every
// path.
func (c *Console) accepts(r *http.Request, bearer string) bool {
	test := r.Clone(r.Context())
	test.Method, test.Body, test.ContentLength = http.MethodGet, http.NoBody, 0
	test.URL.Path, test.URL.RawPath, test.URL.RawQuery, test.RequestURI = "/version", "", "", "/version"
	test.Header = http.Header{"Authorization": {"Bearer " + bearer}, "User-Agent": r.Header["User-Agent"]}
	var got statusOnly
	c.opts.API.ServeHTTP(&got, test)
	return got.code == http.StatusOK
}

// statusOnly is a response of which only the status is of interest.
type statusOnly struct {
	header http.Header
	code   int
}

func (s *statusOnly) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

func (s *statusOnly) Write(b []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(b), nil
}

func (s *statusOnly) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
}

// cookieName is the name of the cookie. It contains the port, since the cookies of all ports of a
// host are one set. Browsers accept the prefix only for cookies that no subdomain has set.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "default"
	}
	if r.TLS != nil {
		return "__Host-kapok-console-" + port
	}
	return "kapok-console-" + port
}

func newCookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
}

// takeCookie returns the cookie of the session, and removes it from the request, so that it does
// not reach servers that API passes the request on to.
func takeCookie(r *http.Request) string {
	name, value, others := cookieName(r), "", []*http.Cookie(nil)
	for _, one := range r.Cookies() {
		if one.Name == name {
			value = one.Value
		} else {
			others = append(others, one)
		}
	}
	if value == "" {
		return ""
	}
	r.Header.Del("Cookie")
	for _, one := range others {
		r.AddCookie(one)
	}
	return value
}
