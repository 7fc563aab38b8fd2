package auth_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/auth"
)

// FuzzBearer: whatever a client says of itself, it is the admin only if it knows the token.
func FuzzBearer(f *testing.F) {
	const token = "correct-horse"
	for _, header := range []string{"", "Bearer", "Bearer " + token, "bearer  " + token, "Bearer " + token + " x", "Basic YTpi", "Bearer \x00", "Bearer,Bearer " + token} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest("GET", "/api", nil)
		r.Header.Set("Authorization", header)
		r = r.WithContext(auth.ConnContext(r.Context()))
		u, err := auth.NewAuthenticator(nil, auth.AdminToken(token)).Identify(r)
		switch {
		case err != nil && u != nil, err == nil && u == nil:
			t.Errorf("%q: %v and %v", header, u, err)
		case err == nil && u.In(auth.Masters) && !strings.Contains(header, token):
			t.Errorf("%q is the admin", header)
		case err == nil && !u.In(auth.Masters) && u.Name != auth.Anonymous:
			t.Errorf("%q is %v", header, u)
		}
	})
}
