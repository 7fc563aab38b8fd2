package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// tiny returns a load just large enough to run all measures.
func tiny(o *Options) Load {
	o.Duration = MinDuration
	l := newLoad(o)
	l.Objects, l.Labelled, l.Connections, l.Watchers, l.Definitions, l.quiet = 50, 1, 3, 3, 3, time.Millisecond
	return l
}

// TestRun takes all measures, checks the report, and checks that all objects are removed.
func TestRun(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("ownConnections=%v", own), func(t *testing.T) {
			config := serve(t)
			var steps []string
			o := Options{Config: config, OwnConnections: own, FsyncDir: t.TempDir(), Progress: func(p Progress) {
				if p.Done < 0 || p.Done > 1 || p.Step > p.Steps {
					t.Errorf("progress %+v", p)
				}
				if p.Done == 0 {
					steps = append(steps, p.Title)
				}
				if p.Done == 0 && len(steps) != p.Step {
					t.Errorf("step %d of %d: %q", len(steps), p.Steps, steps)
				}
			}}
			if runtime.GOOS == "linux" {
				o.Processes = []int{os.Getpid()}
			}
			report, err := start(t.Context(), o, tiny(&o))
			if err != nil {
				t.Fatal(err)
			}
			nothingLeft(t, config)

			var names []string
			for _, m := range report.Measures {
				names = append(names, m.Name)
				if m.Error != "" || m.Operations == 0 || m.Seconds <= 0 || m.Rate <= 0 {
					t.Errorf("%+v", m)
				}
				if l := m.Latency; l != nil && (l.P50Us > l.P99Us || (l.P99Fsyncs > 0) != m.writes) {
					t.Errorf("%s: %+v", m.Name, l)
				}
			}
			want := []string{"connect", "get-16", "patch-16", "apply-16", "list", "list-gzip", "label", "watch-due", "watch-answer",
				"create-1", "create-16", "create-256", "crds"}
			if !slices.Equal(names, want) {
				t.Errorf("measures %q", names)
			}
			if len(o.Processes) > 0 {
				var memory []string
				for _, m := range report.Memory {
					memory = append(memory, m.Name)
					if m.RssAnon < 1<<20 {
						t.Errorf("%+v", m)
					}
				}
				if want := []string{"idle", "loaded", "loaded-quiet", "crds-before", "crds-quiet"}; !slices.Equal(memory, want) {
					t.Errorf("memory %q", memory)
				}
			}
			jsonHas(t, report)
		})
	}
}

// jsonHas checks the fields of the JSON report, which programs depend on.
func jsonHas(t *testing.T, report *Report) {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"version":              1.0,
		"server.version":       nil,
		"server.address":       report.Server.Address,
		"machine.cores":        float64(runtime.NumCPU()),
		"machine.go":           runtime.Version(),
		"machine.os":           runtime.GOOS,
		"load.scale":           "full",
		"load.durationSeconds": 0.1,
		"load.ownConnections":  report.Load.OwnConnections,
		"load.schemaFields":    30.0,
		"load.objectBytes":     float64(report.Load.ObjectBytes),
		"fsyncUs":              nil,
		"time":                 nil,
		"measures":             nil,
	} {
		at := any(got)
		for _, name := range strings.Split(path, ".") {
			at = at.(map[string]any)[name]
		}
		if at == nil || want != nil && at != want {
			t.Errorf("%s is %v, want %v", path, at, want)
		}
	}
	create := got["measures"].([]any)[1].(map[string]any)
	for _, name := range []string{"name", "title", "workers", "operations", "seconds", "rate", "latency"} {
		if create[name] == nil {
			t.Errorf("a measure lacks %s: %v", name, create)
		}
	}
}

// TestInterrupted cancels runs at each step: all objects must be removed.
func TestInterrupted(t *testing.T) {
	config := serve(t)
	for step, steps := 1, 2; step <= steps; step++ {
		ctx, interrupt := context.WithCancel(t.Context())
		title := ""
		o := Options{Config: config, Measures: []string{"connect", "get", "watch", "create", "crds"}, Progress: func(p Progress) {
			if p.Step == step && title == "" {
				title = p.Title
				interrupt()
			}
			steps = p.Steps
		}}
		report, err := start(ctx, o, tiny(&o))
		interrupt()
		if done := step == steps; (err == nil) != done { // all steps but the removal were done
			t.Errorf("interrupted at step %d, %s: %v", step, title, err)
		}
		for _, m := range report.Measures {
			if m.Error != "" {
				t.Errorf("interrupted at step %d, %s: %s: %s", step, title, m.Name, m.Error)
			}
		}
		nothingLeft(t, config)
	}
}

// nothingLeft checks that a server has no object of any run.
func nothingLeft(t *testing.T, config *rest.Config) {
	t.Helper()
	d, err := newDialler(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, path := range []string{definitionsPath, namespacesPath} {
		var list metav1.PartialObjectMetadataList
		if err := c.get(context.WithoutCancel(t.Context()), path+"?labelSelector=kapok.dev/bench", &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			t.Errorf("%s %s still exists", path, item.Name)
		}
	}
}

// TestTable checks that the table has columns for measured figures only.
func TestTable(t *testing.T) {
	r := &Report{
		Time:    time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC),
		Server:  Server{"https://127.0.0.1:6443", "v1.37.2"},
		Machine: Machine{"linux", "amd64", 2, "go1.26.8", 0.5},
		Load:    Load{Scale: Full, DurationSeconds: 10, ObjectBytes: 1452, SchemaFields: 30},
		Measures: []Measure{
			{Title: "get, 16 workers", Operations: 90000, Seconds: 10, Rate: 9000, Latency: &Latency{P50Us: 900, P99Us: 12345}},
			{Title: "create, 1 worker", Operations: 9000, Seconds: 10.001, Rate: 900, Latency: &Latency{P50Us: 1000, P99Us: 2000}, writes: true, Waited: 2},
			{Title: "20 definitions", Operations: 20, Seconds: 0.25, Rate: 80},
			{Title: "watch", Error: "no"},
		},
		Notes: []string{"a note"},
	}
	const head = `server   v1.37.2, https://127.0.0.1:6443
machine  2 cores, linux/amd64, go1.26.8, load 0.50, 2026-11-21 12:30 UTC
load     full, 10s a measure, objects of 1452 bytes with a schema of 30 fields, one connection
`
	const tail = `
a note
create, 1 worker: the server responded 2 times with 429 Too Many Requests
watch: no
`
	for _, tc := range []struct {
		change func()
		want   string
	}{
		{func() {}, head + `
MEASURE             COUNT   SECONDS   RATE/S   P50 MS   P99 MS
get, 16 workers     90000      10.0     9000    0.900     12.3
create, 1 worker     9000      10.0      900     1.00     2.00
20 definitions         20     0.250     80.0
watch              failed
` + tail},
		{func() {
			r.inFsyncs(250 * time.Microsecond)
			r.Measures[0].CPUUs = 60
			r.Memory = []Memory{{"idle", "before the load", 8_690_000, 54_600_000}}
		}, head + `fsync    0.25 ms

MEASURE             COUNT   SECONDS   RATE/S   P50 MS   P99 MS   P50 FSYNCS   P99 FSYNCS   CPU US
get, 16 workers     90000      10.0     9000    0.900     12.3                               60.0
create, 1 worker     9000      10.0      900     1.00     2.00         4.00         8.00
20 definitions         20     0.250     80.0
watch              failed

MEMORY            RSSANON MB   RSSFILE MB
before the load         8.69         54.6
` + tail},
	} {
		tc.change()
		var out bytes.Buffer
		if err := r.WriteTable(&out); err != nil || out.String() != tc.want {
			t.Errorf("%v\n%s\nwant\n%s", err, &out, tc.want)
		}
	}
	if n := r.Failed(); n != 1 {
		t.Errorf("%d failed", n)
	}
}
