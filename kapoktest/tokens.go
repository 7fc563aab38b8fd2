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

// tokens has a token that holds, at any time. It is replaced when four fifths of its time have passed, as the kubelet does it, and when the
// server does not know it any more, as after a restart.
type tokens struct {
	request func(ctx context.Context) (*authenticationv1.TokenRequest, error)

	mu    sync.Mutex
	token string
	due   time.Time // when it is to be replaced
}

// get returns the token of now. If there is no new one, it is the old one, as long as that may hold.
func (s *tokens) get(ctx context.Context) (string, error) {
	now := time.Now()
	s.mu.Lock()
	token, due := s.token, s.due
	s.mu.Unlock()
	if now.Before(due) {
		return token, nil
	}
	// The lock is not held meanwhile, as who waits for one keeps the clock of a bubble from moving. Several may get a token at once.
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

// drop has a token replaced at the next request.
func (s *tokens) drop(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == token {
		s.due = time.Time{}
	}
}

// wrap is for rest.Config.
func (s *tokens) wrap(next http.RoundTripper) http.RoundTripper { return &bearer{s, next} }

// bearer shows tokens.
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

// WrappedRoundTripper is for client-go, which looks for the transport below.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }

// userOf is who sends a request: whom it impersonates, or whose token it shows, whether or not that holds.
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
