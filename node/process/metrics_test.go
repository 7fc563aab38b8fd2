//go:build linux || darwin

package process

import (
	"fmt"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
)

// TestSamples checks the rates of samples: that since the start at first, and never a negative one.
func TestSamples(t *testing.T) {
	s := &sampler{}
	id := proc.ID{Pod: "p", Container: "c"}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "d"}}}}
	run := proc.Run{}
	run.ID = id
	start := time.Unix(1e9, 0)
	now := start
	for i, test := range []struct {
		after  time.Duration
		cpu    time.Duration
		memory int64
		want   string
	}{
		{2 * time.Second, time.Second, 1 << 20, "c 500m 1Mi"},
		{time.Second, 9 * time.Second, 9 << 20, "c 500m 1Mi"}, // too early
		{14 * time.Second, 4 * time.Second, 2 << 20, "c 200m 2Mi"},
		{15 * time.Second, 3 * time.Second, 1 << 20, "c 0 1Mi"},
		{15 * time.Second, 18 * time.Second, 0, "c 1 0"},
	} {
		now = now.Add(test.after)
		s.sample(map[proc.ID]proc.Usage{id: {CPU: test.cpu, Memory: test.memory, Started: start}}, now)
		got := ""
		for _, c := range s.usage(pod, []proc.Run{run}) {
			got += fmt.Sprintf("%s %s %s", c.Name, c.Usage.Cpu(), c.Usage.Memory())
		}
		if got != test.want {
			t.Errorf("after sample %d: got %q, want %q", i, got, test.want)
		}
	}
	run.Exit = &proc.Exit{}
	if got := s.usage(pod, []proc.Run{run}); len(got) > 0 {
		t.Errorf("a container that has ended: got %v", got)
	}
	run.Exit = nil
	s.sample(nil, now)
	if got := s.usage(pod, []proc.Run{run}); len(got) > 0 {
		t.Errorf("a container that has not been measured: got %v", got)
	}
}
