package kapoktest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// tokens holds a valid token. It replaces the token after four fifths of its lifetime, like the
// kubelet, and when the server rejects it, as after a restart.
type tokens struct {
	request func(ctx context.Context) (*authenticationv1.TokenRequest, error)

	mu    sync.Mutex
	token string
	due   time.Time // when it is to be replaced
}

// get returns the current token. If it cannot be replaced, get returns the old one while it may be
// valid.
func (s *tokens) get(ctx context.Context) (string, error) {
	now := time.Now()
	s.mu.Lock()
	token, due := s.token, s.due
	s.mu.Unlock()
	if now.Before(due) {
		return token, nil
	}
	// Do not hold the lock during the request: virtual time does not advance while a goroutine
	// waits for a mutex. Concurrent calls may each request a token.
	r, err := s.request(ctx)
	if err != nil {
		if token != "" {
			return token, nil
		}
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = r.Status.Token
	s.due = now.Add(r.Status.ExpirationTimestamp.Sub(now) * 4 / 5)
	return s.token, nil
}

// drop replaces a token at the next request.
func (s *tokens) drop(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == token {
		s.due = time.Time{}
	}
}

// wrap returns a transport with the token, for rest.Config.
func (s *tokens) wrap(next http.RoundTripper) http.RoundTripper { return &bearer{s, next} }

// bearer adds tokens to requests.
type bearer struct {
	tokens *tokens
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return b.next.RoundTrip(r)
	}
	token, err := b.tokens.get(r.Context())
	if err != nil {
		closeBody(r)
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := b.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		b.tokens.drop(token)
	}
	return answer, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }

// userOf returns the user of a request: the impersonated one, or that of the token, valid or not.
func userOf(r *http.Request) string {
	if user := r.Header.Get("Impersonate-User"); user != "" {
		return user
	}
	parts := strings.Split(r.Header.Get("Authorization"), ".") // of a JSON web token
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if data, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Subject
}
