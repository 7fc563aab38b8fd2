package simulated

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestSidecarsStopInReverse(t *testing.T) {
	l := newLife(t, `containers: {"*": {stop: 2s}}`, func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "a", Image: "i", RestartPolicy: &always}, {Name: "b", Image: "i", RestartPolicy: &always}}
	})
	l.until(0).delete(10*time.Second, 30).until(time.Hour).want(
		"0s Running a:running b:running c:running ready | Pulled Created Started Pulled Created Started Pulled Created Started",
		"10s Running a:running b:running c:running ready | Killing Killing Killing",
		"12s Running a:running b:running c:Completed(0)",
		"14s Running a:running b:Completed(0) c:Completed(0)",
		"16s Succeeded a:Completed(0) b:Completed(0) c:Completed(0) | delete",
	)
}

func TestDeletions(t *testing.T) {
	for _, tc := range []struct {
		name, simulation string
		change           func(p *corev1.Pod)
		grace            int64
		want             []string // after the first line
	}{
		{"at once", "", nil, 30, []string{"10s Succeeded c:Completed(0) | Killing delete"}},
		{"stop", "containers: {c: {stop: 3s}}", nil, 30, []string{
			"10s Running c:running ready | Killing", "13s Succeeded c:Completed(0) | delete",
		}},
		{"killed", "containers: {c: {stop: 1m}}", nil, 5, []string{
			"10s Running c:running ready | Killing", "15s Failed c:Error(137) | delete",
		}},
		{"the least grace", "containers: {c: {stop: 1m}}", nil, 1, []string{
			"10s Running c:running ready | Killing", "12s Failed c:Error(137) | delete",
		}},
		{"preStop", "containers: {c: {stop: 3s}}", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}}
		}, 30, []string{"10s Running c:running ready | Killing", "17s Succeeded c:Completed(0) | delete"}},
		{"unfinished work", "containers: {c: {run: 1h}}", job, 30, []string{"10s Failed c:Error(143) | Killing delete"}},
		{"ends before", "containers: {c: {run: 11s, stop: 3s, exit: 7}}", job, 30, []string{
			"10s Running c:running ready | Killing", "11s Failed c:Error(7) | delete",
		}},
		{"waiting", "containers: {c: {pullError: true}}", nil, 30, []string{
			"5s Pending c:ImagePullBackOff | BackOff Failed",
			"10s Failed c:ContainerStatusUnknown(137) | delete",
		}},
		{"crash loop", "containers: {c: {run: 1s, exit: 1}}", nil, 30, []string{
			"1s Running c:runningx1 ready | Pulled Created Started",
			"2s Running c:CrashLoopBackOffx1 | BackOff",
			"10s Failed c:ContainerStatusUnknown(137)x1 | delete",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLife(t, tc.simulation, tc.change).until(9 * time.Second)
			first := l.lines[0]
			for i, line := range tc.want {
				tc.want[i] = strings.Replace(line, "Killing delete", "Killing | delete", 1)
			}
			l.delete(10*time.Second, tc.grace).until(time.Hour).want(append([]string{first}, tc.want...)...)
		})
	}
}

func TestDeletionOfEndedPod(t *testing.T) {
	l := newLife(t, "", job).until(time.Minute)
	l.lines = nil
	l.delete(time.Hour, 30).want("1h0m0s Succeeded c:Completed(0) | delete")
}
