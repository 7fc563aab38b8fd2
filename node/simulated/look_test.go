package simulated

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// epoch is the time at which the pods of these tests are bound.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A life plays looks at a pod, each at the time that the one before it has asked for, and writes a
// line for each change.
type life struct {
	t     *testing.T
	pod   *corev1.Pod
	needs needs
	lines []string
	next  time.Time
	gone  bool
}

func newLife(t *testing.T, simulation string, change func(p *corev1.Pod)) *life {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Generation: 1},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
			Containers: []corev1.Container{{Name: "c", Image: "i:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if simulation != "" {
		p.Annotations = map[string]string{SimulationAnnotation: simulation}
	}
	if change != nil {
		change(p)
	}
	return &life{t: t, pod: p, next: epoch}
}

// until plays the looks that are due before a time, from the last one.
func (l *life) until(end time.Duration) *life {
	for looks := 0; !l.gone && !l.next.IsZero() && !l.next.After(epoch.Add(end)); looks++ {
		if looks > 1000 {
			l.t.Fatal("the looks do not end")
		}
		l.look(l.next.Sub(epoch))
	}
	return l
}

// look looks at a time. A second look at the same time changes nothing.
func (l *life) look(at time.Duration) *life {
	l.t.Helper()
	before := summary(l.pod)
	out := l.advance(at)
	l.pod.Status = *out.status.DeepCopy()
	l.next, l.gone = out.next, out.gone
	if !l.next.IsZero() && !l.next.After(epoch.Add(at)) {
		l.t.Fatalf("the next look after %v is at %v", at, l.next.Sub(epoch))
	}
	var events []string
	for _, e := range out.events {
		events = append(events, e.reason)
	}
	if now := summary(l.pod); now != before || len(events) > 0 || out.gone {
		line := fmt.Sprintf("%v %s", at, now)
		if len(events) > 0 {
			line += " | " + strings.Join(events, " ")
		}
		if out.gone {
			line += " | delete"
		}
		l.lines = append(l.lines, line)
	}
	again := l.advance(at)
	if patch, err := podstatus.Patch(l.pod, &again.status); err != nil || patch != nil {
		l.t.Fatalf("a second look at %v changes %s, %v", at, patch, err)
	}
	return l
}

func (l *life) advance(at time.Duration) outcome {
	s, err := simulationOf(l.pod)
	if err != nil {
		l.t.Fatal(err)
	}
	return advance(input{
		pod: l.pod.DeepCopy(), node: host{ips: []string{"172.16.0.1"}, allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
		simulation: s, needs: l.needs, podIPs: []string{"10.0.0.1"}, now: epoch.Add(at),
	})
}

// delete marks the pod as deleted at a time.
func (l *life) delete(at time.Duration, grace int64) *life {
	l.pod.DeletionTimestamp = new(metav1.NewTime(epoch.Add(at + time.Duration(grace)*time.Second)))
	l.pod.DeletionGracePeriodSeconds = &grace
	l.pod.Generation++
	return l.look(at)
}

// want compares the lines.
func (l *life) want(lines ...string) {
	l.t.Helper()
	if !slices.Equal(l.lines, lines) {
		l.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(l.lines, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// summary is a line about a pod: its phase, its containers, and whether it is ready.
func summary(p *corev1.Pod) string {
	var b strings.Builder
	b.WriteString(string(p.Status.Phase))
	if p.Status.Reason != "" {
		fmt.Fprintf(&b, "(%s)", p.Status.Reason)
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
		fmt.Fprintf(&b, " %s:", s.Name)
		switch {
		case s.State.Running != nil:
			b.WriteString("running")
			if s.Started != nil && !*s.Started {
				b.WriteString("(unstarted)")
			}
		case s.State.Terminated != nil:
			fmt.Fprintf(&b, "%s(%d)", s.State.Terminated.Reason, s.State.Terminated.ExitCode)
		case s.State.Waiting != nil:
			b.WriteString(s.State.Waiting.Reason)
		}
		if s.RestartCount > 0 {
			fmt.Fprintf(&b, "x%d", s.RestartCount)
		}
	}
	if podstatus.IsTrue(&p.Status, corev1.PodReady) {
		b.WriteString(" ready")
	}
	return b.String()
}

func job(p *corev1.Pod) {
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: types.UID("j"), Controller: new(true)}}
}

// BenchmarkLook measures a look at a new pod, and at one that runs.
func BenchmarkLook(b *testing.B) {
	p := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c", Image: "i:1"}}}}
	in := input{pod: p, node: host{ips: []string{"172.16.0.1"}}, podIPs: []string{"10.0.0.1"}, now: epoch}
	look := func(b *testing.B) {
		for b.Loop() {
			out := advance(in)
			if _, err := podstatus.Patch(p, &out.status); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("new", look)
	p.Status = advance(in).status
	b.Run("running", look)
}
