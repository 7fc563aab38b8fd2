package endpoint

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

func TestHealth(t *testing.T) {
	var broken error
	s := newServer(t, func(o *Options) {
		o.Checks = []Check{
			{Name: "journal", Run: func(*http.Request) error { return broken }},
			{Name: "loaded", Run: func(*http.Request) error { return nil }, ReadyOnly: true},
		}
	})
	tests := []struct {
		path string
		code int
		text string
	}{
		{"/healthz", 200, "ok"},
		{"/livez?verbose", 200, "[+]ping ok\n[+]log ok\n[+]journal ok\nlivez check passed\n"},
		{"/readyz?verbose=1", 200, "[+]ping ok\n[+]log ok\n[+]journal ok\n[+]loaded ok\n[+]shutdown ok\nreadyz check passed\n"},
		{"/readyz/loaded", 200, "ok"},
		{"/livez/loaded", 404, "404 page not found\n"},
		{"/healthz/", 404, "404 page not found\n"},
		{"/readyz?verbose&exclude=journal&exclude=x", 200, "[+]ping ok\n[+]log ok\n[+]journal excluded: ok\n[+]loaded ok\n[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n"},
	}
	for _, test := range tests {
		if got := s.must(test.code, "GET", test.path, ""); got != test.text {
			t.Errorf("%s: %q, want %q", test.path, got, test.text)
		}
	}
	broken = errors.New("secret reason")
	if got := s.must(500, "GET", "/healthz", "", "Authorization", ""); got != "[+]ping ok\n[+]log ok\n[-]journal failed: reason withheld\nhealthz check failed\n" {
		t.Errorf("failing: %q", got)
	}
	if got := s.must(500, "GET", "/readyz/journal", ""); got != "internal server error: secret reason\n" {
		t.Errorf("failing alone: %q", got)
	}
	s.must(200, "GET", "/healthz?exclude=journal", "")
	s.must(403, "GET", "/readyz/journal", "", "Authorization", "")

	broken = nil
	s.must(200, "GET", "/readyz/shutdown", "")
	s.EndWatches()
	if got := s.must(500, "GET", "/readyz/shutdown", ""); got != "internal server error: process is shutting down\n" {
		t.Errorf("at the end: %q", got)
	}
	s.must(500, "GET", "/readyz", "")
	s.must(200, "GET", "/livez", "")
}

func TestMetrics(t *testing.T) {
	extra := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kapok_objects"}, func() float64 { return 42 })
	s := newServer(t, func(o *Options) { o.Collectors = []prometheus.Collector{extra} })
	s.must(201, "POST", widgetPath+"?dryRun=All", widget("a", ""))
	s.must(200, "GET", widgetPath, "")
	s.must(404, "GET", widgetPath+"/a", "")
	s.must(404, "GET", "/made/up", "")
	s.must(404, "GET", "/apis/made.up/v1/things", "")
	s.must(200, "GET", strings.Replace(widgetPath, "v1", "v1beta1", 1), "")
	s.must(401, "GET", widgetPath, "", "Authorization", "Bearer wrong")
	text := s.must(200, "GET", "/metrics", "")
	for _, want := range []string{
		"kapok_objects 42",
		`apiserver_request_total{code="201",component="apiserver",dry_run="All",group="example.com",resource="widgets",scope="resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="example.com",resource="widgets",scope="namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 2`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="example.com",resource="widgets",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_request_sli_duration_seconds_count{component="apiserver",group="example.com",resource="widgets",scope="namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_response_sizes_bucket{component="apiserver",group="example.com",resource="widgets",scope="namespace",subresource="",verb="LIST",version="v1",le="1000"} 1`,
		`apiserver_requested_deprecated_apis{group="example.com",removed_release="",resource="widgets",subresource="",version="v1beta1"} 1`,
		`authenticated_user_requests{username="other"} 8`,
		`authentication_attempts{result="error"} 1`,
		`authentication_attempts{result="success"} 8`,
		`authentication_duration_seconds_count{result="success"} 8`,
		`authorization_attempts_total{result="allowed"} 8`,
		`authorization_attempts_total{result="no-opinion"} 0`,
		`kubernetes_build_info{build_date="",compiler="",git_commit="",git_tree_state="",git_version="v1.37.0+kapok",go_version="",major="1",minor="37",platform=""} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, `request_sli_duration_seconds_count{component="apiserver",group="example.com",resource="widgets",scope="resource",subresource="",verb="POST"`) {
		t.Error("a dry run counts for the service level")
	}
	if strings.Contains(text, "made.up") || strings.Contains(text, "made/up") {
		t.Error("strangers make up series")
	}
}

// TestNativeHistograms checks that histograms have native buckets besides classic ones in the
// protobuf form of the metrics, as in Kubernetes 1.37.
func TestNativeHistograms(t *testing.T) {
	s := newServer(t)
	s.must(200, "GET", widgetPath, "")
	format := expfmt.NewFormat(expfmt.TypeProtoDelim)
	body := s.must(200, "GET", "/metrics", "", "Accept", string(format))
	for decoder := expfmt.NewDecoder(strings.NewReader(body), format); ; {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			t.Fatalf("no request durations: %v", err)
		}
		if family.GetName() != "apiserver_request_duration_seconds" {
			continue
		}
		for _, m := range family.Metric {
			if h := m.Histogram; h.GetSchema() == 0 || len(h.PositiveSpan) == 0 && h.GetZeroCount() == 0 || len(h.Bucket) != 24 || h.GetSampleCount() == 0 {
				t.Errorf("%s", m)
			}
		}
		return
	}
}
