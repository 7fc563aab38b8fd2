package authn

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// Remember returns a TokenAuthenticator that calls another one and caches its results: known
// bearers and unknown tokens, each for the given time; 0 disables caching. Errors are not cached.
func Remember(of TokenAuthenticator, known, unknown time.Duration) TokenAuthenticator {
	return &memory{of: of, known: known, unknown: unknown}
}

// remembered is the maximum number of cached tokens.
const remembered = 4096

type memory struct {
	of             TokenAuthenticator
	known, unknown time.Duration

	mu      sync.Mutex
	answers map[[sha256.Size]byte]answer
}

// An answer is a result for a token. The token itself is not kept.
type answer struct {
	user      *User
	audiences []string
	until     time.Time
}

// AuthenticateToken implements TokenAuthenticator.
func (m *memory) AuthenticateToken(ctx context.Context, token string, wanted []string) (*User, []string, error) {
	question := question(token, wanted)
	m.mu.Lock()
	a, ok := m.answers[question]
	m.mu.Unlock()
	if ok && time.Now().Before(a.until) {
		return a.user, a.audiences, nil
	}
	u, audiences, err := m.of.AuthenticateToken(ctx, token, wanted)
	if err != nil {
		return nil, nil, err
	}
	keep := m.known
	if u == nil {
		keep = m.unknown
	}
	if keep > 0 {
		m.remember(question, answer{u, audiences, time.Now().Add(keep)})
	}
	return u, audiences, nil
}

func question(token string, wanted []string) [sha256.Size]byte {
	var text []byte
	for _, part := range append([]string{token}, wanted...) {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}

// remember caches a result. If the cache is full, it first removes expired results, and then
// arbitrary ones.
func (m *memory) remember(question [sha256.Size]byte, a answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = map[[sha256.Size]byte]answer{}
	}
	if len(m.answers) >= remembered {
		now := time.Now()
		for q, old := range m.answers {
			if now.After(old.until) {
				delete(m.answers, q)
			}
		}
		for q := range m.answers {
			if len(m.answers) < remembered*3/4 {
				break
			}
			delete(m.answers, q)
		}
	}
	m.answers[question] = a
}
