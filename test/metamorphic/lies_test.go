package metamorphic

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// A tripper changes the responses to requests.
type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// edit returns a tripper that edits the bodies of responses.
func edit(some func(*http.Request) bool, change func([]byte) []byte) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err != nil || !some(r) {
				return resp, err
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(change(body)))
			return resp, err
		})
	}
}

// TestLiesAreFound checks that a wrong server is found, and reported with few operations.
func TestLiesAreFound(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(http.RoundTripper) http.RoundTripper{
		"writes that are acknowledged and lost": func(next http.RoundTripper) http.RoundTripper {
			deletes := 0
			return tripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodDelete && strings.Count(r.URL.Path, "/") > 5 {
					if deletes++; deletes > 2 {
						r.URL.RawQuery = "dryRun=All"
					}
				}
				return next.RoundTrip(r)
			})
		},
		"exact lists of the newest": func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if q := r.URL.Query(); q.Get("resourceVersionMatch") == "Exact" && q.Get("limit") == "" {
					q.Set("resourceVersionMatch", "NotOlderThan")
					r.URL.RawQuery = q.Encode()
				}
				return next.RoundTrip(r)
			})
		},
		"watches that begin later": func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if q := r.URL.Query(); q.Get("watch") != "" && q.Get("resourceVersion") != "" {
					q.Del("resourceVersion")
					r.URL.RawQuery = q.Encode()
				}
				return next.RoundTrip(r)
			})
		},
		"pages without the rest": edit(
			func(r *http.Request) bool { return r.URL.Query().Has("limit") },
			func(body []byte) []byte { return bytes.Replace(body, []byte(`"continue"`), []byte(`"stop"`), 1) }),
		"preconditions that are ignored": func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodDelete {
					r.Body, r.ContentLength = http.NoBody, 0
				}
				return next.RoundTrip(r)
			})
		},
		"managers that are forgotten": edit(
			func(r *http.Request) bool { return r.Method == http.MethodGet && !r.URL.Query().Has("watch") },
			func(body []byte) []byte {
				return bytes.ReplaceAll(body, []byte(`"manager":"metamorphic"`), []byte(`"manager":"another"`))
			}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &run{operations(1, 200), []Configuration{{Name: "honest"}, {Name: "liar", Lie: lie}}, 1}
			report := r.report(t.Context(), t.TempDir())
			if !strings.Contains(report, "liar") || !strings.Contains(report, "honest") {
				t.Errorf("the report is\n%s", report)
			}
			if lines := strings.Count(report, "\n    "); lines > 30 {
				t.Errorf("the report is as long as this:\n%s", report)
			}
			t.Log(report)
		})
	}
}

// TestLostSyncsAreFound checks that a server that does not sync is found on a disk that loses
// unsynced data.
func TestLostSyncsAreFound(t *testing.T) {
	t.Parallel()
	r := &run{operations(1, 200), []Configuration{
		{Name: "honest", Files: true, Lossy: true},
		{Name: "liar", Files: true, Lossy: true, Options: kapok.Options{UnsafeNoFsync: true}},
	}, 1}
	report := r.report(t.Context(), t.TempDir())
	if !strings.Contains(report, "liar") || !strings.Contains(report, "and honest") || !strings.Contains(report, "crash") {
		t.Errorf("the report is\n%s", report)
	}
	t.Log(report)
}
