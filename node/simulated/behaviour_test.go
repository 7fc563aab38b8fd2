package simulated

import (
	"strings"
	"testing"
	"time"
)

func TestSimulationErrors(t *testing.T) {
	for text, want := range map[string]string{
		"containers: {c: {exit: 256}}":     `annotation kapok.dev/simulation: container "c": exit 256: must be between 0 and 255`,
		"containers: {c: {run: 1}}":        `1 is not a duration such as "2s"`,
		"containers: {c: {run: -1s}}":      `duration "-1s" is negative`,
		"containers: {c: {pull: forever}}": `container "c": pull: only run can be forever`,
		"containers: {x: {}}":              `the pod has no container "x"`,
		"containers: {c: {speed: 1}}":      `unknown field "speed"`,
		"containers: {c: {times: 0}}":      `times 0: must be at least 1`,
		"container: {}":                    `unknown field "container"`,
		"[":                                "yaml",
	} {
		p := newLife(t, text, nil).pod
		s, err := simulationOf(p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if s.containers != nil || s.completes {
			t.Errorf("%s: %+v", text, s)
		}
	}
}

func TestImages(t *testing.T) {
	for image, want := range map[string]string{
		"nginx":                "docker.io/library/nginx:latest",
		"nginx:1":              "docker.io/library/nginx:1",
		"a/b":                  "docker.io/a/b:latest",
		"localhost/b":          "localhost/b:latest",
		"reg.example:5000/a/b": "reg.example:5000/a/b:latest",
		"reg.example/b:2":      "reg.example/b:2",
		"b@sha256:00":          "docker.io/library/b@sha256:00",
	} {
		if got := imageName(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
	if id := imageID("reg.example:5000/a/b:2"); !strings.HasPrefix(id, "reg.example:5000/a/b@sha256:") {
		t.Error(id)
	}
}

func TestBackoffMessage(t *testing.T) {
	l := newLife(t, "containers: {c: {run: 1s, exit: 1}}", nil).until(2 * time.Second)
	want := "back-off 10s restarting failed container=c pod=p_ns(uid)"
	if got := l.pod.Status.ContainerStatuses[0].State.Waiting; got == nil || got.Message != want {
		t.Errorf("%+v", got)
	}
}
