package main

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/examples/at/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A step is what an At needs now.
type step struct {
	phase string        // what its phase becomes
	start bool          // whether its pod is to be made
	wait  time.Duration // when to look again. 0: when something changes
}

// next returns the step for an At at a time. pod is its pod, or nil. It returns an error if
// the schedule is not a time.
func next(at *v1alpha1.At, pod *corev1.Pod, now time.Time) (step, error) {
	if at.Status.Phase == v1alpha1.PhaseDone {
		return step{phase: v1alpha1.PhaseDone}, nil
	}
	if pod != nil {
		if ended(pod) {
			return step{phase: v1alpha1.PhaseDone}, nil
		}
		return step{phase: v1alpha1.PhaseRunning}, nil
	}
	due, err := time.Parse(time.RFC3339, at.Spec.Schedule)
	if err != nil {
		return step{}, fmt.Errorf("schedule %q is not a time such as 2026-07-03T02:00:00Z: %w", at.Spec.Schedule, err)
	}
	if wait := due.Sub(now); wait > 0 {
		return step{phase: v1alpha1.PhasePending, wait: wait}, nil
	}
	return step{phase: v1alpha1.PhaseRunning, start: true}, nil
}

// ended reports whether the containers of a pod have ended for good.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podName is the name of the pod of an At.
func podName(at *v1alpha1.At) string { return at.Name + "-pod" }

// newPod returns the pod that runs the command of an At once.
func newPod(at *v1alpha1.At) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(at), Namespace: at.Namespace},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name:    "busybox",
				Image:   "busybox",
				Command: []string{"sh", "-c", at.Spec.Command},
			}},
			RestartPolicy: corev1.RestartPolicyNever,
		},
	}
}
