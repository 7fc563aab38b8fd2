package simulated

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestLives(t *testing.T) {
	always := new(corev1.ContainerRestartPolicyAlways)
	probe := func(delay, period, failures int32) *corev1.Probe {
		return &corev1.Probe{InitialDelaySeconds: delay, PeriodSeconds: period, FailureThreshold: failures, SuccessThreshold: 1}
	}
	for _, tc := range []struct {
		name       string
		simulation string
		change     func(p *corev1.Pod)
		until      time.Duration
		want       []string
	}{
		{"runs at once", "", nil, time.Hour, []string{"0s Running c:running ready | Pulled Created Started"}},
		{"job", "", job, time.Hour, []string{
			"0s Running c:running ready | Pulled Created Started",
			"1s Succeeded c:Completed(0)",
		}},
		{"job that fails", `containers: {c: {run: 5s, exit: 3}}`, job, time.Hour, []string{
			"0s Running c:running ready | Pulled Created Started",
			"5s Failed c:Error(3)",
		}},
		{"never", "", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }, time.Hour, []string{
			"0s Running c:running ready | Pulled Created Started",
		}},
		{"never, with an annotation", "{}", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }, time.Hour, []string{
			"0s Running c:running ready | Pulled Created Started", "1s Succeeded c:Completed(0)",
		}},
		{"forever", "containers: {c: {run: forever}}", job, time.Hour, []string{"0s Running c:running ready | Pulled Created Started"}},
		{"on failure", "containers: {c: {run: 5s, exit: 3, times: 2}}", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, time.Hour, []string{
			"0s Running c:running ready | Pulled Created Started",
			"5s Running c:runningx1 ready | Pulled Created Started",
			"10s Running c:CrashLoopBackOffx1 | BackOff",
			"20s Running c:runningx2 ready | Pulled Created Started",
			"21s Succeeded c:Completed(0)x2",
		}},
		{"crash loop", "containers: {c: {run: 1s, reason: OOMKilled}}", nil, 110 * time.Second, []string{
			"0s Running c:running ready | Pulled Created Started",
			"1s Running c:runningx1 ready | Pulled Created Started",
			"2s Running c:CrashLoopBackOffx1 | BackOff",
			"12s Running c:runningx2 ready | Pulled Created Started",
			"13s Running c:CrashLoopBackOffx2 | BackOff",
			"33s Running c:runningx3 ready | Pulled Created Started",
			"34s Running c:CrashLoopBackOffx3 | BackOff",
			"1m14s Running c:runningx4 ready | Pulled Created Started",
			"1m15s Running c:CrashLoopBackOffx4 | BackOff",
		}},
		{"ends at once", "containers: {c: {run: 0s, exit: 1}}", nil, 11 * time.Second, []string{
			"0s Running c:CrashLoopBackOffx1 | Pulled Created Started Pulled Created Started BackOff",
			"10s Running c:CrashLoopBackOffx2 | Pulled Created Started BackOff",
		}},
		{"stable in between", "containers: {c: {run: 11m}}", nil, 34 * time.Minute, []string{
			"0s Running c:running ready | Pulled Created Started",
			"11m0s Running c:runningx1 ready | Pulled Created Started",
			"22m0s Running c:runningx2 ready | Pulled Created Started",
			"33m0s Running c:runningx3 ready | Pulled Created Started",
		}},
		{"slow start", "containers: {c: {pull: 2s, start: 1s, ready: 5s}}", nil, time.Hour, []string{
			"0s Pending c:ContainerCreating | Pulling",
			"3s Running c:running | Pulled Created Started",
			"8s Running c:running ready",
		}},
		{"pulls one after the other", `containers: {"*": {pull: 2s}}`, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "j"})
		}, time.Hour, []string{
			"0s Pending c:ContainerCreating d:ContainerCreating | Pulling",
			"2s Pending c:running d:ContainerCreating | Pulled Created Started Pulling",
			"4s Running c:running d:running ready | Pulled Created Started",
		}},
		{"pull error", "containers: {c: {pullError: true}}", nil, 40 * time.Second, []string{
			"0s Pending c:ErrImagePull | Pulling Failed Failed",
			"5s Pending c:ImagePullBackOff | BackOff Failed",
			"10s Pending c:ErrImagePull | Pulling Failed Failed",
			"15s Pending c:ImagePullBackOff | BackOff Failed",
			"30s Pending c:ErrImagePull | Pulling Failed Failed",
			"35s Pending c:ImagePullBackOff | BackOff Failed",
		}},
		{"init containers", "containers: {b: {run: 3s}}", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "i"}}
		}, time.Hour, []string{
			"0s Pending a:Completed(0) b:running c:PodInitializing | Pulled Created Started Pulled Created Started",
			"3s Running a:Completed(0) b:Completed(0) c:running ready | Pulled Created Started",
		}},
		{"an init container fails", "containers: {a: {exit: 2}}", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.InitContainers = []corev1.Container{{Name: "a", Image: "i"}}
		}, time.Hour, []string{
			"0s Pending a:running c:PodInitializing | Pulled Created Started",
			"1s Failed a:Error(2) c:PodInitializing",
		}},
		{"an init container fails and runs again", "containers: {a: {run: 0s, exit: 2, times: 2}}", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "a", Image: "i"}}
		}, time.Hour, []string{
			"0s Pending a:CrashLoopBackOffx1 c:PodInitializing | Pulled Created Started Pulled Created Started BackOff",
			"10s Running a:Completed(0)x2 c:running ready | Pulled Created Started Pulled Created Started",
		}},
		{"sidecar", "containers: {s: {stop: 2s}}", func(p *corev1.Pod) {
			job(p)
			p.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "i", RestartPolicy: always, StartupProbe: probe(3, 5, 3)}}
		}, time.Hour, []string{
			"0s Pending s:running(unstarted) c:PodInitializing | Pulled Created Started",
			"5s Running s:running c:running ready | Pulled Created Started",
			"6s Running s:running c:Completed(0)",
			"8s Succeeded s:Completed(0) c:Completed(0) | Killing",
		}},
		{"sidecar that ends", "containers: {s: {run: 5s}}", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "s", Image: "i", RestartPolicy: always}}
		}, 11 * time.Second, []string{
			"0s Running s:running c:running ready | Pulled Created Started Pulled Created Started",
			"5s Running s:runningx1 c:running ready | Pulled Created Started",
			"10s Running s:CrashLoopBackOffx1 c:running | BackOff",
		}},
		{"readiness probe", "containers: {c: {ready: 12s}}", func(p *corev1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = probe(0, 5, 3)
			p.Spec.Containers[0].ReadinessProbe.SuccessThreshold = 2
		}, time.Hour, []string{
			"0s Running c:running | Pulled Created Started Unhealthy",
			"20s Running c:running ready",
		}},
		{"readiness probe with a delay", "", func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = probe(7, 5, 3) }, time.Hour, []string{
			"0s Running c:running | Pulled Created Started",
			"10s Running c:running ready",
		}},
		{"never ready", "containers: {c: {unready: true}}", nil, time.Hour, []string{"0s Running c:running | Pulled Created Started"}},
		{"startup probe fails", "containers: {c: {unready: true, stop: 1s}}", func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = probe(0, 5, 3) }, 13 * time.Second, []string{
			"0s Running c:running(unstarted) | Pulled Created Started",
			"11s Running c:running(unstarted)x1 | Unhealthy Killing Pulled Created Started",
		}},
		{"liveness probe fails", "containers: {c: {unhealthy: 7s}}", func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].ReadinessProbe = probe(0, 5, 3), probe(0, 5, 1)
		}, 40 * time.Second, []string{
			"0s Running c:running ready | Pulled Created Started",
			"10s Running c:running",
			"20s Running c:runningx1 ready | Unhealthy Killing Pulled Created Started",
			"30s Running c:runningx1",
			"40s Running c:CrashLoopBackOffx1 | Unhealthy Killing BackOff",
		}},
		{"deadline", "", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) }, time.Hour, []string{
			"0s Running c:running ready | Pulled Created Started",
			"1m0s Failed(DeadlineExceeded) c:Completed(0) | Killing DeadlineExceeded",
		}},
		{"deadline of a pod that waits", "containers: {c: {pullError: true}}", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(3)) }, time.Hour, []string{
			"0s Pending c:ErrImagePull | Pulling Failed Failed",
			"3s Failed(DeadlineExceeded) c:ContainerStatusUnknown(137) | DeadlineExceeded",
		}},
		{"policies of containers", "containers: {c: {run: 2s, exit: 42}, d: {run: 1s, exit: 1}}", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			never := corev1.ContainerRestartPolicyNever
			p.Spec.Containers[0].RestartPolicy = &never
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action:    corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "i"})
		}, 5 * time.Second, []string{
			"0s Running c:running d:running ready | Pulled Created Started Pulled Created Started",
			"1s Running c:running d:Error(1)",
			"2s Running c:runningx1 d:Error(1) | Pulled Created Started",
			"4s Running c:CrashLoopBackOffx1 d:Error(1) | BackOff",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			newLife(t, tc.simulation, tc.change).until(tc.until).want(tc.want...)
		})
	}
}
