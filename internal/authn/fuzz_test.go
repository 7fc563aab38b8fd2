package authn_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
)

// FuzzBearer checks that only a request with the token is the admin's, whatever its header.
func FuzzBearer(f *testing.F) {
	const token = "correct-horse"
	for _, header := range []string{"", "Bearer", "Bearer " + token, "bearer  " + token, "Bearer " + token + " x", "Basic YTpi", "Bearer \x00", "Bearer,Bearer " + token} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest("GET", "/api", nil)
		r.Header.Set("Authorization", header)
		r = r.WithContext(authn.ConnContext(r.Context()))
		u, err := authn.NewAuthenticator(nil, authn.AdminToken(token)).Identify(r)
		switch {
		case err != nil && u != nil, err == nil && u == nil:
			t.Errorf("%q: %v and %v", header, u, err)
		case err == nil && u.In(authn.Masters) && !strings.Contains(header, token):
			t.Errorf("%q is the admin", header)
		case err == nil && !u.In(authn.Masters) && u.Name != authn.Anonymous:
			t.Errorf("%q is %v", header, u)
		}
	})
}
