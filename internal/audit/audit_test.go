package audit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/reload"

	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/util/flowcontrol"
)

const everything = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	writeFile(t, path, content)
	return path
}

func writeFile(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestOptions(t *testing.T) {
	policy := write(t, "policy.yaml", everything)
	for _, tc := range []struct {
		name    string
		options Options
		want    string
	}{
		{"no policy", Options{LogPath: "-"}, "Options.Audit.PolicyFile is not set"},
		{"a policy that is not there", Options{LogPath: "-", PolicyFile: "/nowhere"}, "audit policy: open /nowhere"},
		{"no rules", Options{LogPath: "-", PolicyFile: write(t, "p", "apiVersion: audit.k8s.io/v1\nkind: Policy\n")}, "loaded illegal policy with 0 rules"},
		{"of another version", Options{LogPath: "-", PolicyFile: write(t, "p", "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n")}, "no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\""},
		{"an unknown level", Options{LogPath: "-", PolicyFile: write(t, "p", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]\n")}, `rules[0].level: Unsupported value: "All"`},
		{"no YAML", Options{LogPath: "-", PolicyFile: write(t, "p", "\t")}, "failed decoding"},
		{"no sink", Options{PolicyFile: policy}, "set LogPath or Webhook"},
		{"negative", Options{PolicyFile: policy, LogPath: "x", LogMaxAge: -1}, "LogMaxAge is -1: none of them can be negative"},
		{"sizes", Options{PolicyFile: policy, LogPath: "x", LogTruncateEnabled: true, LogTruncateMaxEventSize: 20, LogTruncateMaxBatchSize: 10}, "LogTruncateMaxEventSize is 20, LogTruncateMaxBatchSize is 10"},
		{"negative sizes", Options{PolicyFile: policy, LogPath: "x", WebhookTruncateEnabled: true, WebhookTruncateMaxEventSize: -1}, "WebhookTruncateMaxEventSize is -1"},
		{"a directory", Options{PolicyFile: policy, LogPath: t.TempDir()}, "is a directory"},
		{"no kubeconfig", Options{PolicyFile: policy, Webhook: "/nowhere"}, "audit webhook /nowhere"},
		{"the second sink is wrong", Options{PolicyFile: policy, LogPath: filepath.Join(t.TempDir(), "log"), Webhook: "/nowhere"}, "audit webhook /nowhere"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.options.Validate()
			if err == nil {
				var a *Auditor
				if a, err = New(tc.options, quiet()); err == nil {
					a.Close()
					t.Fatal("accepted")
				}
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// The policy is read again when it changes; one that is wrong changes nothing.
func TestPolicyReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := write(t, "policy.yaml", everything)
		var log bytes.Buffer
		a, err := New(Options{PolicyFile: policy}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		audited := func() bool {
			return a.Begin(httptest.NewRequest("GET", "/version", nil), &authz.Attributes{Verb: "get", Path: "/version"}, "id", time.Now()) != nil
		}
		change := func(content string) {
			if err := os.WriteFile(policy, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * reload.Every)
			synctest.Wait()
		}
		if !audited() {
			t.Fatal("the policy of the start does not hold")
		}
		change("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n")
		if audited() {
			t.Error("the policy after it does not hold")
		}
		change("nonsense")
		if audited() {
			t.Error("a policy that is wrong has changed something")
		}
		change(everything)
		if !audited() {
			t.Error("the policy after one that was wrong does not hold")
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "not loaded"); n != 1 {
			t.Errorf("the error was logged %d times:\n%s", n, &log)
		}
	})
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		other := filepath.Join(dir, "audit-notes.log")
		if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := openFile(Options{LogPath: filepath.Join(dir, "audit.log"), LogMaxSize: 1, LogMaxBackups: 2, LogMaxAge: 1, LogCompress: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		event := func(n int) *auditv1.Event {
			e := &auditv1.Event{AuditID: "x", RequestObject: unknown([]byte(`"` + strings.Repeat("a", 600<<10) + `"`))}
			e.RequestURI = fmt.Sprint(n)
			return e
		}
		files := func() (names []string) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		}
		for n := range 6 {
			if err := w.write(t.Context(), []*auditv1.Event{event(n)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		names := files()
		if len(names) != 4 || !strings.HasSuffix(names[0], ".log.gz") || !strings.HasSuffix(names[1], ".log.gz") || names[2] != "audit-notes.log" || names[3] != "audit.log" {
			t.Fatalf("files: %q", names)
		}
		f, err := os.Open(filepath.Join(dir, names[1]))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		var last auditv1.Event
		if err := json.NewDecoder(z).Decode(&last); err != nil || last.RequestURI != "4" {
			t.Errorf("the newest rotated file has %s, %v", last.RequestURI, err)
		}
		time.Sleep(48 * time.Hour)
		if err := w.write(t.Context(), []*auditv1.Event{event(6)}); err != nil {
			t.Fatal(err)
		}
		if names := files(); len(names) != 3 {
			t.Errorf("files after two days: %q", names)
		}
	})
}

// slow is a sink that takes its time.
type slow struct {
	sync.Mutex
	taken []string
	time  time.Duration
	fails error
}

func (*slow) name() string                { return "slow" }
func (*slow) batch() (int, time.Duration) { return 100, 0 }
func (*slow) limit() limit                { return limit{} }
func (*slow) close() error                { return nil }
func (s *slow) write(ctx context.Context, events []*auditv1.Event) error {
	select {
	case <-time.After(s.time):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.Lock()
	defer s.Unlock()
	for _, e := range events {
		s.taken = append(s.taken, e.RequestURI)
	}
	return s.fails
}

// A slow sink never blocks a request: what does not fit is dropped and counted.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMetrics()
		s := &slow{time: time.Hour}
		q := startQueue(s, &m, slog.New(slog.NewTextHandler(&log, nil)))
		begin := time.Now()
		q.add(&auditv1.Event{RequestURI: "first"})
		synctest.Wait() // is being written
		const more = 500
		for n := range maxQueued + more {
			q.add(&auditv1.Event{RequestURI: fmt.Sprint(n)})
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("requests have waited for %v", took)
		}
		if n := testutil.ToFloat64(q.dropped); n != more {
			t.Errorf("dropped %v, want %d", n, more)
		}
		time.Sleep(2*time.Hour + time.Minute)
		synctest.Wait()
		s.Lock()
		s.time = 0
		s.Unlock()
		if err := q.close(); err != nil {
			// the write of the hour that was under way at the close
			if !strings.Contains(err.Error(), "events are lost") {
				t.Error(err)
			}
		}
		if !strings.Contains(log.String(), "slower than the requests") {
			t.Errorf("the log does not report lost events:\n%s", &log)
		}
		if len(s.taken) < 100 || s.taken[0] != "first" || s.taken[1] != "0" || s.taken[2] != "1" {
			t.Errorf("taken: %d", len(s.taken))
		}
	})
}

// The queue is bounded in bytes, too, but one event always fits.
func TestQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		s := &slow{time: time.Second}
		q := startQueue(s, &m, quiet())
		q.add(&auditv1.Event{})
		synctest.Wait()
		big := &auditv1.Event{RequestObject: unknown(make([]byte, maxQueuedBytes+1))}
		q.add(big)
		q.add(&auditv1.Event{})
		if n := testutil.ToFloat64(q.dropped); n != 1 {
			t.Errorf("dropped %v", n)
		}
		if err := q.close(); err != nil || len(s.taken) != 2 {
			t.Errorf("taken %d, %v", len(s.taken), err)
		}
	})
}

// All that clients and webhooks choose the length of counts, not only bodies.
func TestQueueCounts(t *testing.T) {
	const n = 1 << 20
	long := strings.Repeat("x", n)
	user := authenticationv1.UserInfo{Extra: map[string]authenticationv1.ExtraValue{"k": {long}}}
	for name, e := range map[string]*auditv1.Event{
		"uri":           {RequestURI: long},
		"user":          {User: authenticationv1.UserInfo{Username: long}},
		"groups":        {User: authenticationv1.UserInfo{Groups: []string{long}}},
		"impersonation": {ImpersonatedUser: &user},
		"name":          {ObjectRef: &auditv1.ObjectReference{Name: long}},
		"message":       {ResponseStatus: &metav1.Status{Message: long}},
		"cause":         {ResponseStatus: &metav1.Status{Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: long}}}}},
		"annotation":    {Annotations: map[string]string{"a": long}},
		"request":       {RequestObject: unknown([]byte(long))},
		"response":      {ResponseObject: unknown([]byte(long))},
	} {
		if got := size(e); got < n || got > n+n/100 {
			t.Errorf("%s: %d bytes count as %d", name, n, got)
		}
	}
}

// Close gives up after a while.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics()
		q := startQueue(&slow{time: 24 * time.Hour}, &m, quiet())
		q.add(&auditv1.Event{})
		synctest.Wait()
		begin := time.Now()
		if err := q.close(); err == nil {
			t.Error("close returns nil although events are lost")
		}
		if took := time.Since(begin); took != closing {
			t.Errorf("took %v", took)
		}
	})
}

// roundTripper is a webhook.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What a webhook does not take is sent again, and lost only after five times.
func TestWebhookComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []auditv1.EventList
		down := 3
		w := &webhook{
			options: Options{WebhookInitialBackoff: 10 * time.Second, WebhookBatchMaxSize: 2, WebhookBatchMaxWait: 30 * time.Second},
			url:     "https://audit", transport: &http.Transport{},
			throttle: flowcontrol.NewFakeAlwaysRateLimiter(),
			client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if down--; down >= 0 {
					return nil, errors.New("connection refused")
				}
				var list auditv1.EventList
				if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
					t.Error(err)
				}
				got = append(got, list)
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}"))}, nil
			})},
		}
		m := newMetrics()
		q := startQueue(w, &m, quiet())
		begin := time.Now()
		for n := range 3 {
			q.add(&auditv1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event"}, RequestURI: fmt.Sprint(n)})
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(got) != 2 || len(got[0].Items) != 2 || len(got[1].Items) != 1 || got[0].Kind != "EventList" || got[1].Items[0].RequestURI != "2" {
			t.Errorf("got %+v", got)
		}
		down = attempts
		q.add(&auditv1.Event{})
		q.add(&auditv1.Event{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := testutil.ToFloat64(q.dropped); n != 2 || len(got) != 2 {
			t.Errorf("dropped %v, got %d after %v", n, len(got), time.Since(begin))
		}
		if err := q.close(); err == nil {
			t.Error("close returns nil although events are lost")
		}
	})
}

// A webhook is reached with what its kubeconfig says, and its redirects are not followed.
func TestWebhookServer(t *testing.T) {
	var paths []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path+" "+r.Header.Get("Authorization"))
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{"/audit": "", "/moved": "returned 307"} {
		config := write(t, "kubeconfig", fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
			"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"secret"}}]}`, server.URL+path))
		w, err := newWebhook(Options{Webhook: config}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		err = w.send(t.Context(), []byte("{}"))
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", path, err)
		}
		w.close()
	}
	for _, p := range paths {
		if p != "/audit Bearer secret" && p != "/moved Bearer secret" {
			t.Errorf("asked for %s", p)
		}
	}
}

func TestWithoutManagedFields(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"name":"a","managedFields":[1]}}`:                                                 `{"metadata":{"name":"a"}}`,
		`{"kind":"List","items":[{"metadata":{"managedFields":[1]}},3]}`:                                `{"items":[{"metadata":{}},3],"kind":"List"}`,
		`{"kind":"Table","rows":[{"cells":[1],"object":{"metadata":{"managedFields":[1]}}}],"items":1}`: `{"items":1,"kind":"Table","rows":[{"cells":[1],"object":{"metadata":{}}}]}`,
		`{"metadata":null,"items":null}`:                                                                `{"items":null,"metadata":null}`,
	} {
		var obj map[string]any
		if err := json.Unmarshal([]byte(in), &obj); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(withoutManagedFields(obj))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
		if again, _ := json.Marshal(obj); strings.Contains(in, "managedFields") && !strings.Contains(string(again), "managedFields") {
			t.Errorf("%s has been changed", in)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [x]\nrules: [{level: Metadata, resources: [{group: '', resources: ['*/x']}]}]\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Skip()
		}
		p, err := loadPolicy(t.Context(), path)
		if err == nil {
			p.rule(&authz.Attributes{Verb: "get", ResourceRequest: true, Resource: "pods"})
		}
	})
}
