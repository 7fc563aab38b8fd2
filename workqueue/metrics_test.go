package workqueue_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/workqueue"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := workqueue.NewMetrics()
		q := workqueue.New(workqueue.Options[string]{Name: "q", Metrics: m, RateLimiter: workqueue.ExponentialBackoff[string](time.Second, time.Minute)})
		twin := workqueue.New(workqueue.Options[string]{Name: "q", Metrics: m}) // of the same name
		twin.AddWithOpts(workqueue.AddOpts{Priority: -1}, "a")
		q.AddWithOpts(workqueue.AddOpts{Priority: -1}, "a", "b", "b")
		q.Add("c")
		q.Add("d")
		time.Sleep(2 * time.Second)
		take(t, q, 2)
		q.Add("c")
		time.Sleep(3 * time.Second)
		q.AddRateLimited("d")
		q.Done("d")
		time.Sleep(500 * time.Millisecond)
		expectMetrics(t, m, `
			workqueue_adds_total{controller="q",name="q"} 6
			workqueue_depth{controller="q",name="q",priority="-1"} 3
			workqueue_depth{controller="q",name="q",priority="0"} 0
			workqueue_longest_running_processor_seconds{controller="q",name="q"} 3.5
			workqueue_retries_total{controller="q",name="q"} 1
			workqueue_unfinished_work_seconds{controller="q",name="q"} 3.5
		`)
		if n := testutil.CollectAndCount(m, "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"); n != 2 {
			t.Errorf("%d histograms", n)
		}
		q.ShutDown()
		twin.ShutDown()
		expectMetrics(t, m, `
			workqueue_adds_total{controller="q",name="q"} 6
			workqueue_retries_total{controller="q",name="q"} 1
		`)
	})
}

// A priority stays in the depth when nothing of it is ready any longer, and 0 is there from the
// start.
func TestDepthOfEmptyQueue(t *testing.T) {
	m := workqueue.NewMetrics()
	q := workqueue.New(workqueue.Options[string]{Name: "q", Metrics: m})
	expectDepth := func(when, want string) {
		t.Helper()
		text, err := testutil.CollectAndFormat(m, expfmt.TypeTextPlain, "workqueue_depth")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(text)) {
			if _, depth, ok := strings.Cut(line, "priority="); ok {
				got = append(got, strings.TrimSpace(depth))
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: got %s, want %s", when, text, want)
		}
	}
	expectDepth("new", `"0"} 0`)
	q.AddWithOpts(workqueue.AddOpts{Priority: -100}, "a")
	q.AddWithOpts(workqueue.AddOpts{Priority: 5}, "a") // raised
	expectDepth("raised", `"-100"} 0, "0"} 0, "5"} 1`)
	take(t, q, 1)
	expectDepth("taken", `"-100"} 0, "0"} 0, "5"} 0`)
	q.Done("a")
	q.ShutDown()
	expectDepth("ended", "")
}

// expectMetrics compares counters and gauges with what is wanted of each.
func expectMetrics(t *testing.T, m *workqueue.Metrics, want string) {
	t.Helper()
	text, err := testutil.CollectAndFormat(m, expfmt.TypeTextPlain,
		"workqueue_adds_total", "workqueue_depth", "workqueue_longest_running_processor_seconds",
		"workqueue_retries_total", "workqueue_unfinished_work_seconds")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if want := strings.Fields(strings.ReplaceAll(strings.TrimSpace(want), "\n", " ")); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
