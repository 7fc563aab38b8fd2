package simulated

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestAddresses(t *testing.T) {
	a := newAddresses()
	if got := a.of("1", nil); !slices.Equal(got, []string{"10.0.0.1"}) || !slices.Equal(a.of("1", nil), got) {
		t.Error(got)
	}
	small := []string{"192.168.0.0/30", "fd00::/126"}
	if got := a.of("2", small); !slices.Equal(got, []string{"192.168.0.1", "fd00::1"}) {
		t.Error(got)
	}
	a.of("3", small)
	if got := a.of("4", small[:1]); got != nil {
		t.Errorf("%v from a range that is exhausted", got)
	}
	a.release("2")
	if got := a.of("4", small[:1]); !slices.Equal(got, []string{"192.168.0.1"}) {
		t.Error(got)
	}
	seen := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "5"}, Status: corev1.PodStatus{PodIP: "10.0.0.2", PodIPs: []corev1.PodIP{{IP: "10.0.0.2"}}}}
	a.observe(seen)
	if got := a.of("6", nil); !slices.Equal(got, []string{"10.0.0.3"}) {
		t.Error(got)
	}
	seen.Status.Phase = corev1.PodFailed
	a.observe(seen)
	if len(a.pods["5"]) > 0 {
		t.Error("an ended pod keeps its address")
	}
}
