package filters_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager/metricsserver/filters"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// protected puts the filter before a handler that responds with "metrics".
func protected(t *testing.T, cfg *rest.Config) http.Handler {
	t.Helper()
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(cfg, hc)
	if err != nil {
		t.Fatal(err)
	}
	h, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// get sends a request with a header Authorization.
func get(t *testing.T, h http.Handler, method, path, authorization string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestRequestsAreAuthenticatedAndAuthorized(t *testing.T) {
	env := kapoktest.Start(t)
	env.ServiceAccount("default", "scraper", kapoktest.Can("get", "/metrics"))
	scraper, other := env.Token("default", "scraper", time.Hour), env.Token("default", "other", time.Hour)
	operator := env.ServiceAccount("default", "operator", kapoktest.Can("create", "tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"))
	h := protected(t, operator)
	for _, tc := range []struct {
		method, path, authorization string
		code                        int
		body                        string
	}{
		{"GET", "/metrics", "", 401, "Unauthorized"},
		{"GET", "/metrics", "Bearer", 401, "Unauthorized"},
		{"GET", "/metrics", "Basic " + scraper, 401, "Unauthorized"},
		{"GET", "/metrics", "Bearer nonsense", 401, "Unauthorized"},
		{"GET", "/metrics", "Bearer " + scraper + "x", 401, "Unauthorized"},
		{"GET", "/metrics", "Bearer " + other, 403, "Authorization denied for user system:serviceaccount:default:other"},
		{"GET", "/metrics", "bearer " + scraper, 200, "metrics"},
		{"GET", "/debug", "Bearer " + scraper, 403, "scraper"},
		{"POST", "/metrics", "Bearer " + scraper, 403, "scraper"},
	} {
		if code, body := get(t, h, tc.method, tc.path, tc.authorization); code != tc.code || !strings.Contains(body, tc.body) {
			t.Errorf("%s %s %q: %d %s, want %d %s", tc.method, tc.path, tc.authorization, code, body, tc.code, tc.body)
		}
	}

	if code, _ := get(t, protected(t, env.As("nobody")), "GET", "/metrics", "Bearer "+scraper); code != 500 {
		t.Errorf("without permission for reviews the code is %d", code)
	}
}

// TestAnswersAreKept checks that each result of the server is cached until it expires.
func TestAnswersAreKept(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.ServiceAccount("default", "scraper", kapoktest.Can("get", "/metrics"))
		token := "Bearer " + env.Token("default", "scraper", time.Hour)
		h := protected(t, env.Config())
		reviews := func() (n int) {
			for _, r := range env.Requests() {
				if strings.HasSuffix(r.Path, "reviews") {
					n++
				}
			}
			return n
		}
		ask := func(want int) {
			t.Helper()
			for range 3 {
				go get(t, h, "GET", "/metrics", token)
			}
			synctest.Wait()
			if code, body := get(t, h, "GET", "/metrics", token); code != 200 {
				t.Fatal(code, body)
			}
			if n := reviews(); n != want {
				t.Errorf("%d reviews, want %d", n, want)
			}
		}
		ask(2)
		time.Sleep(59 * time.Second)
		ask(2)
		time.Sleep(2 * time.Second)
		ask(3) // the token
		time.Sleep(4 * time.Minute)
		ask(5)
	})
}
