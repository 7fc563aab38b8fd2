package audit

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// sized returns an event of a level whose objects have a size in bytes each.
func sized(level auditv1.Level, uri string, objects int) *auditv1.Event {
	text := []byte(`"` + strings.Repeat("x", objects) + `"`)
	return &auditv1.Event{Level: level, RequestURI: uri, RequestObject: unknown(text), ResponseObject: unknown(text)}
}

// TestSplit checks which events are truncated or left out, and where batches are split.
func TestSplit(t *testing.T) {
	small, large := sized(auditv1.LevelRequestResponse, "small", 10), sized(auditv1.LevelRequestResponse, "large", 2000)
	bare := sized(auditv1.LevelMetadata, strings.Repeat("u", 3000), 0)
	bare.RequestObject, bare.ResponseObject = nil, nil
	n := encodedSize(small)
	for name, tc := range map[string]struct {
		limit  limit
		events []*auditv1.Event
		want   string // by URI, truncated ones with *
		left   int
	}{
		"no limit":               {limit{}, []*auditv1.Event{small, large, bare}, "small large " + bare.RequestURI, 0},
		"fits":                   {limit{n, n}, []*auditv1.Event{small}, "small", 0},
		"a byte too large":       {limit{n - 1, n}, []*auditv1.Event{small}, "small*", 0},
		"truncated":              {limit{1000, 10_000}, []*auditv1.Event{large, small}, "large* small", 0},
		"too large even then":    {limit{1000, 10_000}, []*auditv1.Event{small, bare, large}, "small large*", 1},
		"nothing is left":        {limit{10, 10}, []*auditv1.Event{small, bare}, "", 2},
		"split":                  {limit{1000, 2*n + 1}, []*auditv1.Event{small, small, small, small, small}, "small small|small small|small", 0},
		"an event for each part": {limit{5000, 5000}, []*auditv1.Event{large, large}, "large|large", 0},
		"no events":              {limit{10, 10}, nil, "", 0},
	} {
		parts, left := tc.limit.split(tc.events)
		var texts []string
		for _, part := range parts {
			var uris []string
			for _, e := range part {
				uri := e.RequestURI
				if e.Annotations[truncated] == "true" && e.RequestObject == nil && e.ResponseObject == nil {
					uri += "*"
				}
				uris = append(uris, uri)
			}
			texts = append(texts, strings.Join(uris, " "))
		}
		if got := strings.Join(texts, "|"); got != tc.want || left != tc.left {
			t.Errorf("%s: %.100s, %d left out; want %.100s, %d", name, got, left, tc.want, tc.left)
		}
	}
	if large.Annotations != nil || large.RequestObject == nil {
		t.Error("an event is changed, which another sink has too")
	}
}

// TestTruncate checks what is written, counted and logged.
func TestTruncate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var log bytes.Buffer
	a, err := New(Options{PolicyFile: write(t, "policy.yaml", everything), LogPath: path, LogTruncateEnabled: true, LogTruncateMaxEventSize: 1000},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	a.emit(*sized(auditv1.LevelRequestResponse, "large", 2000))
	a.emit(auditv1.Event{Level: auditv1.LevelMetadata, RequestURI: strings.Repeat("u", 2000)})
	if err := a.Close(); err == nil || !strings.Contains(err.Error(), "1 events are lost") {
		t.Errorf("close: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"audit.k8s.io/truncated":"true"`) || strings.Contains(got, "xxx") {
		t.Errorf("the log is %.500s", got)
	}
	if n := testutil.ToFloat64(a.metrics.errors.WithLabelValues("truncate")); n != 1 {
		t.Errorf("%v events are counted, want 1", n)
	}
	if !strings.Contains(log.String(), "too large") {
		t.Errorf("the server's log is %s", &log)
	}
}
