package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Requests that are turned away with a Retry-After are sent again, then.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := startServer(t)
		w := tap(cfg)
		c, err := client.New(cfg, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		w.answer = func(r *http.Request) *http.Response {
			if n++; r.Method != http.MethodPost || n > 3 {
				return nil
			}
			answer := answerJSON(429, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`)
			answer.Header.Set("Retry-After", "2")
			return answer
		}
		if err := c.Get(t.Context(), client.Key("default", "a"), configMap("a")); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		n = 0
		start := time.Now()
		if err := c.Create(t.Context(), configMap("a", "x", "y")); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < 6*time.Second || waited > 7*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

// A watch by a handle lives through what happens to watches, and does not hammer the server.
func TestHandleWatchFaults(t *testing.T) {
	event := func(kind, name, revision, more string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":%q%s}}}`, kind, name, revision, more)
	}
	const end = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	gone := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`
	refused := func(code int, reason string) *http.Response {
		return answerJSON(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code))
	}
	for _, test := range []struct {
		what    string
		answers []*http.Response // to the watches; then the context ends
		asked   []string         // from which revisions; "marks" if what is there is to be marked
		events  string
		is      func(error) bool // what the watch ends with
	}{
		{"resumed from the last event",
			[]*http.Response{answerJSON(200, event("ADDED", "a", "3", "")+event("BOOKMARK", "", "5", end)+event("MODIFIED", "a", "7", "")), answerJSON(200, event("DELETED", "a", "9", ""))},
			[]string{"marks", "7", "9"}, "ADDED a, MODIFIED a, DELETED a", nil},
		{"resumed from a bookmark",
			[]*http.Response{answerJSON(200, event("BOOKMARK", "", "5", end)+event("BOOKMARK", "", "8", "")), answerJSON(200, "")},
			[]string{"marks", "8", "8"}, "", nil},
		{"broken in between",
			[]*http.Response{breaks(answerJSON(200, event("BOOKMARK", "", "5", end)+event("ADDED", "a", "6", ""))), answerJSON(200, event("ADDED", "b", "7", ""))},
			[]string{"marks", "6", "7"}, "ADDED a, ADDED b", nil},
		{"broken in a frame",
			[]*http.Response{answerJSON(200, event("BOOKMARK", "", "5", end)+`{"type":"ADD`), answerJSON(200, event("ADDED", "b", "6", ""))},
			[]string{"marks", "5", "6"}, "ADDED b", nil},
		{"broken before all objects are reported",
			[]*http.Response{answerJSON(200, event("ADDED", "a", "3", "")), answerJSON(200, event("ADDED", "a", "3", "")+event("BOOKMARK", "", "5", end))},
			[]string{"marks", "marks", "5"}, "ADDED a, ADDED a", nil},
		{"a server that does not mark",
			[]*http.Response{refused(422, "Invalid"), answerJSON(200, event("ADDED", "a", "3", "")+event("BOOKMARK", "", "5", "")), answerJSON(200, "")},
			[]string{"marks", "", "5", "5"}, "ADDED a", nil},
		{"errors that pass",
			[]*http.Response{answerJSON(200, event("BOOKMARK", "", "5", end)), refused(500, "InternalError"), refused(503, "ServiceUnavailable"), answerJSON(200, event("ADDED", "a", "6", ""))},
			[]string{"marks", "5", "5", "5", "6"}, "ADDED a", nil},
		{"forgotten", []*http.Response{answerJSON(200, event("BOOKMARK", "", "5", end)+event("ADDED", "a", "6", "")), answerJSON(200, gone)},
			[]string{"marks", "6"}, "ADDED a", apierrors.IsResourceExpired},
		{"forgotten at once", []*http.Response{answerJSON(200, event("BOOKMARK", "", "5", end)), refused(410, "Expired")},
			[]string{"marks", "5"}, "", apierrors.IsResourceExpired},
		{"forbidden", []*http.Response{refused(403, "Forbidden")}, []string{"marks"}, "", apierrors.IsForbidden},
		{"an object of another kind", []*http.Response{answerJSON(200, strings.ReplaceAll(event("ADDED", "a", "6", ""), "ConfigMap", "Secret"))}, []string{"marks"}, "", anyError},
		{"an event of no kind", []*http.Response{answerJSON(200, event("SUBTRACTED", "a", "6", ""))}, []string{"marks"}, "", anyError},
	} {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var asked []string
				mapper := meta.NewDefaultRESTMapper(nil)
				mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
				server := roundTripper(func(r *http.Request) (*http.Response, error) {
					from := r.URL.Query().Get("resourceVersion")
					if r.URL.Query().Get("sendInitialEvents") == "true" {
						from += "marks"
					}
					if asked = append(asked, from); len(asked) > len(test.answers) {
						cancel()
						return nil, ctx.Err()
					}
					answer := *test.answers[len(asked)-1]
					answer.Request = r
					return &answer, nil
				})
				c, err := client.NewWithWatch(&rest.Config{Host: "http://server"}, client.Options{HTTPClient: &http.Client{Transport: server}, Mapper: mapper})
				if err != nil {
					t.Fatal(err)
				}
				var events []string
				var last error
				start := time.Now()
				for event, err := range client.For[*corev1.ConfigMap](c).Watch(ctx) {
					if last = err; err == nil {
						events = append(events, fmt.Sprint(event.Type, " ", event.Object.Name))
					}
				}
				if got := strings.Join(events, ", "); got != test.events {
					t.Errorf("events %s, want %s", got, test.events)
				}
				if !slices.Equal(asked, test.asked) {
					t.Errorf("asked %q, want %q", asked, test.asked)
				}
				if (last != nil) != (test.is != nil) || last != nil && !test.is(last) {
					t.Errorf("ended with %v", last)
				}
				if n := len(asked) - 1; n > 1 && time.Since(start) < time.Duration(n-1)*500*time.Millisecond {
					t.Errorf("%d watches in %v", n+1, time.Since(start))
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// All continues after a page of a cache without a continue token, and after a 410 response without
// one.
func TestAllFaults(t *testing.T) {
	page := func(next string, names ...string) *http.Response {
		var items []string
		for _, name := range names {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q}}`, name, name))
		}
		return answerJSON(200, fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ",")))
	}
	gone := func(next string) *http.Response {
		return answerJSON(410, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"metadata":{"continue":%q}}`, next))
	}
	for _, test := range []struct {
		what    string
		answers []*http.Response
		asked   string
	}{
		{"pages", []*http.Response{page("1", "a", "b"), page("2", "c", "d"), page("", "e")}, "limit=2; continue=1&limit=2; continue=2&limit=2"},
		{"full pages", []*http.Response{page("1", "a", "b"), page("", "c", "d")}, "limit=2; continue=1&limit=2"},
		{"forgotten, with a token", []*http.Response{page("1", "a", "b"), gone("9"), page("", "c")}, "limit=2; continue=1&limit=2; continue=9&limit=2"},
		{"forgotten, without one", []*http.Response{page("1", "a", "b"), gone(""), page("5", "a", "b"), page("", "c")},
			"limit=2; continue=1&limit=2; limit=2; continue=5&limit=2"},
		{"a cache", []*http.Response{page("", "c", "a"), page("", "b", "a", "c")}, "limit=2; "},
		{"nothing", []*http.Response{page("")}, "limit=2"},
	} {
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		var asked []string
		server := roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.RawQuery)
			if len(asked) > len(test.answers) {
				return nil, io.EOF
			}
			test.answers[len(asked)-1].Request = r
			return test.answers[len(asked)-1], nil
		})
		c, err := client.New(&rest.Config{Host: "http://server"}, client.Options{HTTPClient: &http.Client{Transport: server}, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for cm, err := range client.For[*corev1.ConfigMap](c).All(t.Context(), client.Limit(2)) {
			if err != nil {
				t.Errorf("%s: %v", test.what, err)
				break
			}
			seen[cm.Name]++
		}
		for name, times := range seen {
			if times != 1 {
				t.Errorf("%s: %s came %d times", test.what, name, times)
			}
		}
		if got := strings.Join(asked, "; "); got != test.asked {
			t.Errorf("%s: asked %q, want %q", test.what, got, test.asked)
		}
	}
}

// FuzzAnswer gives the client any bytes as an object, a list and a watch.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"b"}}`,
		`{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},null,7]}`,
		`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1"}}{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1"}}`,
		"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x00", "\x00\x00\x00\x05\x0a\x05ADDED", "\x7a\xff\xff\xff", `{`, ``, `null`, `[]`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	f.Fuzz(func(t *testing.T, body []byte, protobuf bool) {
		server := &echo{contentType: "application/json", body: body}
		if protobuf {
			server.contentType = "application/vnd.kubernetes.protobuf"
		}
		c, err := client.NewWithWatch(&rest.Config{Host: "http://server"}, client.Options{HTTPClient: &http.Client{Transport: server}, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		for _, obj := range []client.Object{&corev1.ConfigMap{}, m} {
			// An object that can be read is no worse for being written.
			if err := c.Get(t.Context(), client.Key("default", "a"), obj); err == nil && obj != m {
				obj.SetNamespace("default")
				obj.SetName("a")
				if err := c.Update(t.Context(), obj); err != nil {
					t.Errorf("read, but not written: %v", err)
				}
			}
		}
		_, _ = client.Dynamic(c, corev1.SchemeGroupVersion.WithResource("configmaps")).List(t.Context())
		_, _ = client.For[*corev1.ConfigMap](c).List(t.Context())
		w, err := c.Watch(t.Context(), &corev1.ConfigMapList{})
		if err != nil {
			t.Fatal(err)
		}
		for range w.ResultChan() {
		}
	})
}

// breaks has the body of an answer end as that of a connection which is lost.
func breaks(answer *http.Response) *http.Response {
	answer.Body = io.NopCloser(io.MultiReader(answer.Body, iotest.ErrReader(errors.New("http2: client connection lost"))))
	return answer
}
