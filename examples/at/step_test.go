package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/examples/at/api/v1alpha1"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestNext(t *testing.T) {
	const schedule = "2026-07-03T02:00:00Z"
	due, err := time.Parse(time.RFC3339, schedule)
	if err != nil {
		t.Fatal(err)
	}
	pod := func(phase corev1.PodPhase) *corev1.Pod { return &corev1.Pod{Status: corev1.PodStatus{Phase: phase}} }

	for _, tt := range []struct {
		name     string
		schedule string // default: schedule
		phase    string
		pod      *corev1.Pod
		now      time.Time
		want     step
		fails    string
	}{
		{name: "new", now: due.Add(-time.Hour), want: step{phase: "PENDING", wait: time.Hour}},
		{name: "waiting", phase: "PENDING", now: due.Add(-time.Nanosecond), want: step{phase: "PENDING", wait: 1}},
		{name: "due to the moment", phase: "PENDING", now: due, want: step{phase: "RUNNING", start: true}},
		{name: "years late", now: due.AddDate(7, 0, 0), want: step{phase: "RUNNING", start: true}},
		{name: "now is elsewhere", now: due.In(time.FixedZone("", 9*3600)), want: step{phase: "RUNNING", start: true}},
		{name: "pod made, status not written", phase: "PENDING", pod: pod(""), now: due, want: step{phase: "RUNNING"}},
		{name: "pod waits", phase: "RUNNING", pod: pod(corev1.PodPending), now: due, want: step{phase: "RUNNING"}},
		{name: "pod runs", phase: "RUNNING", pod: pod(corev1.PodRunning), now: due, want: step{phase: "RUNNING"}},
		{name: "pod unknown", phase: "RUNNING", pod: pod(corev1.PodUnknown), now: due, want: step{phase: "RUNNING"}},
		{name: "command went well", phase: "RUNNING", pod: pod(corev1.PodSucceeded), now: due, want: step{phase: "DONE"}},
		{name: "command failed", phase: "RUNNING", pod: pod(corev1.PodFailed), now: due, want: step{phase: "DONE"}},
		{name: "pod lost before its end", phase: "RUNNING", now: due.Add(time.Minute), want: step{phase: "RUNNING", start: true}},
		{name: "moved while the pod runs", schedule: "2030-01-01T00:00:00Z", phase: "RUNNING", pod: pod(corev1.PodRunning), now: due, want: step{phase: "RUNNING"}},
		{name: "done stays done", phase: "DONE", now: due.AddDate(1, 0, 0), want: step{phase: "DONE"}},
		{name: "done and moved", schedule: "2030-01-01T00:00:00Z", phase: "DONE", now: due, want: step{phase: "DONE"}},
		{name: "as the first example has it", phase: "pending", now: due, want: step{phase: "RUNNING", start: true}},
		{name: "no time", schedule: "tomorrow", now: due, fails: `schedule "tomorrow" is not a time`},
		{name: "no such day", schedule: "2026-02-30T00:00:00Z", now: due, fails: "day out of range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.schedule == "" {
				tt.schedule = schedule
			}
			at := &v1alpha1.At{Spec: v1alpha1.AtSpec{Schedule: tt.schedule}, Status: v1alpha1.AtStatus{Phase: tt.phase}}
			got, err := next(at, tt.pod, tt.now)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("got %v, want an error with %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(step{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
