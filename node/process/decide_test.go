//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"
	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A world is a machine in which containers behave as a test says.
type world struct {
	pod    *corev1.Pod
	now    time.Time
	runs   []proc.Run
	ends   map[string]end    // how containers end by themselves; the others run until they are stopped
	health map[string]health // of containers that run; default: started and ready
	pulls  map[string]error  // of containers whose program cannot be prepared
	done   map[string]*pull
	trace  []string
	out    outcome

	evicted string // why the pod is evicted
}

type end struct {
	after time.Duration
	code  int
}

func newWorld(spec corev1.PodSpec) *world {
	return &world{
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}, Spec: spec},
		now: epoch, ends: map[string]end{}, health: map[string]health{}, pulls: map[string]error{}, done: map[string]*pull{},
	}
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%v ", w.now.Sub(epoch))+fmt.Sprintf(format, args...))
}

// step decides once and does what was decided, and reports whether that was something.
func (w *world) step() bool {
	for i := range w.runs {
		r := &w.runs[i]
		e, ends := w.ends[r.ID.Container]
		if r.Exit == nil && ends && !w.now.Before(r.Started.Add(e.after)) {
			r.Exit = &proc.Exit{Code: e.code, Time: r.Started.Add(e.after)}
		}
	}
	w.out = decide(input{
		pod: w.pod, now: w.now, runs: w.runs, hostIP: "127.0.0.1", podIP: "127.77.0.1", evicted: w.evicted,
		health: func(id proc.ID) health {
			if h, ok := w.health[id.Container]; ok {
				return h
			}
			return health{started: true, ready: true}
		},
		pull:    func(container string) *pull { return w.done[container] },
		config:  func(*corev1.Container) error { return nil },
		message: func(*corev1.Container, proc.Run) string { return "" },
	})
	w.pod.Status = w.out.status
	for _, s := range w.out.steps {
		name := s.container.Name
		switch s.do {
		case prepare:
			w.done[name] = &pull{path: "/" + name, at: w.now}
			if err := w.pulls[name]; err != nil {
				w.done[name] = &pull{err: err, at: w.now, wait: minBackoff}
			}
		case start:
			w.note("start %s %d", name, s.attempt)
			run := proc.Run{Started: w.now}
			run.ID, run.Backoff = proc.ID{Pod: "u", Container: name, Attempt: s.attempt}, s.backoff
			w.runs = append(w.runs, run)
			slices.SortStableFunc(w.runs, func(a, b proc.Run) int { return strings.Compare(a.ID.Container, b.ID.Container) })
			delete(w.done, name)
		case stop:
			w.note("stop %s %v", name, s.grace)
			for i := range w.runs {
				if w.runs[i].ID == s.run {
					w.runs[i].Exit = &proc.Exit{Code: 143, Signal: 15, Time: w.now}
				}
			}
			delete(w.health, name)
		}
	}
	return len(w.out.steps) > 0
}

// run lets time pass, in steps of a second.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); ; w.now = w.now.Add(time.Second) {
		for n := 0; w.step(); n++ {
			if n > 100 {
				panic("decide never comes to an end")
			}
		}
		if !w.now.Before(end) {
			return
		}
	}
}

func (w *world) check(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w.trace, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(w.trace, "\n"), strings.Join(want, "\n"))
	}
}

func named(names ...string) (all []corev1.Container) {
	for _, n := range names {
		all = append(all, corev1.Container{Name: n, Image: "file:///" + n})
	}
	return all
}

// TestBackoff restarts a container with the back-off of a kubelet, and begins again after a long
// run.
func TestBackoff(t *testing.T) {
	w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: corev1.RestartPolicyAlways})
	w.ends["c"] = end{time.Second, 1}
	w.run(75 * time.Second)
	w.check(t, "0s start c 0", "1s start c 1", "12s start c 2", "33s start c 3", "1m14s start c 4")
	if s := w.pod.Status.ContainerStatuses[0]; s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.RestartCount != 4 ||
		!strings.HasPrefix(s.State.Waiting.Message, "back-off 1m20s restarting failed container=c") {
		t.Errorf("the status is %+v", s)
	}
	w.trace, w.ends["c"] = nil, end{stable + time.Second, 1}
	w.run(80*time.Second + stable + time.Second)
	w.check(t, "2m35s start c 5", "12m36s start c 6")
}

func TestOrder(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	inits := named("i", "s", "j")
	inits[1].RestartPolicy = &always
	w := newWorld(corev1.PodSpec{InitContainers: inits, Containers: named("a", "b"), RestartPolicy: corev1.RestartPolicyNever})
	w.ends["i"], w.ends["j"] = end{2 * time.Second, 0}, end{time.Second, 0}
	w.health["s"] = health{}
	w.run(5 * time.Second)
	w.check(t, "0s start i 0", "2s start s 0")
	if podstatus.IsTrue(&w.pod.Status, corev1.PodInitialized) || w.pod.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s, initialized before the sidecar has started", w.pod.Status.Phase)
	}
	w.health["s"] = health{started: true, ready: true}
	w.run(2 * time.Second)
	w.check(t, "0s start i 0", "2s start s 0", "5s start j 0", "6s start a 0", "6s start b 0")
	if !podstatus.IsTrue(&w.pod.Status, corev1.PodReady) || w.pod.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s, conditions %+v", w.pod.Status.Phase, w.pod.Status.Conditions)
	}
	w.trace = nil
	w.ends["a"], w.ends["b"] = end{3 * time.Second, 0}, end{4 * time.Second, 1}
	w.run(5 * time.Second)
	w.check(t, "10s stop s 30s")
	if w.pod.Status.Phase != corev1.PodFailed || !w.out.ended {
		t.Errorf("phase %s, want Failed", w.pod.Status.Phase)
	}
}

func TestPolicies(t *testing.T) {
	for _, test := range []struct {
		policy corev1.RestartPolicy
		code   int
		starts int
		phase  corev1.PodPhase
	}{
		{corev1.RestartPolicyNever, 0, 1, corev1.PodSucceeded},
		{corev1.RestartPolicyNever, 2, 1, corev1.PodFailed},
		{corev1.RestartPolicyOnFailure, 0, 1, corev1.PodSucceeded},
		{corev1.RestartPolicyOnFailure, 2, 2, corev1.PodRunning},
		{corev1.RestartPolicyAlways, 0, 2, corev1.PodRunning},
	} {
		w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: test.policy})
		w.ends["c"] = end{time.Second, test.code}
		w.run(5 * time.Second)
		if len(w.trace) != test.starts || w.pod.Status.Phase != test.phase {
			t.Errorf("%s, code %d: %v, phase %s, want %d starts, %s", test.policy, test.code, w.trace, w.pod.Status.Phase, test.starts, test.phase)
		}
	}
}

func TestDeletion(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	inits := named("s")
	inits[0].RestartPolicy = &always
	w := newWorld(corev1.PodSpec{InitContainers: inits, Containers: named("a"), RestartPolicy: corev1.RestartPolicyAlways})
	w.run(time.Second)
	w.trace = nil
	w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = new(metav1.NewTime(w.now.Add(7*time.Second))), new(int64(7))
	if w.step(); w.out.gone {
		t.Error("the pod is gone while containers run")
	}
	w.run(0)
	w.check(t, "1s stop a 7s", "1s stop s 7s")
	if !w.out.gone {
		t.Error("the pod is not gone after its containers")
	}
}

func TestPullFails(t *testing.T) {
	w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: corev1.RestartPolicyAlways})
	w.pulls["c"] = errors.New("image is not mapped")
	w.step()
	for _, want := range []string{"ErrImagePull: image is not mapped", `ImagePullBackOff: Back-off pulling image "file:///c": ErrImagePull: image is not mapped`} {
		w.step()
		if s := w.pod.Status.ContainerStatuses[0].State.Waiting; s == nil || s.Reason+": "+s.Message != want {
			t.Errorf("the container waits for %+v, want %s", s, want)
		}
		w.now = w.now.Add(showPullError)
	}
	delete(w.pulls, "c")
	w.run(time.Second)
	w.check(t, "10s start c 0")
}

func TestProbeKills(t *testing.T) {
	w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(9))})
	w.run(time.Second)
	w.health["c"] = health{started: true, kill: "Container c failed liveness probe"}
	w.run(time.Second)
	w.check(t, "0s start c 0", "1s stop c 9s", "1s start c 1")
}

func TestDeadline(t *testing.T) {
	w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: corev1.RestartPolicyAlways, ActiveDeadlineSeconds: new(int64(3))})
	w.run(5 * time.Second)
	w.check(t, "0s start c 0", "3s stop c 30s")
	if s := w.pod.Status; s.Phase != corev1.PodFailed || s.Reason != deadlineReason {
		t.Errorf("phase %s, reason %s", s.Phase, s.Reason)
	}
}

// TestAdoptedStart adopts a run whose container has not begun yet: the pod waits, neither ready nor
// with another start.
func TestAdoptedStart(t *testing.T) {
	w := newWorld(corev1.PodSpec{Containers: named("c"), RestartPolicy: corev1.RestartPolicyAlways})
	run := proc.Run{}
	run.ID = proc.ID{Pod: "u", Container: "c"}
	w.runs = []proc.Run{run}
	w.run(time.Second)
	w.check(t)
	s := w.pod.Status.ContainerStatuses[0]
	if s.State.Waiting == nil || s.State.Waiting.Reason != "ContainerCreating" || s.Ready || *s.Started || w.pod.Status.Phase != corev1.PodPending {
		t.Errorf("before the container begins, the pod is %s and the container %+v", w.pod.Status.Phase, s)
	}
	w.runs[0].Started = w.now
	w.run(time.Second)
	w.check(t)
	if s := w.pod.Status.ContainerStatuses[0]; s.State.Running == nil || !s.Ready {
		t.Errorf("after that, the container is %+v", s)
	}

	// It is stopped like others.
	w = newWorld(corev1.PodSpec{Containers: named("c"), TerminationGracePeriodSeconds: new(int64(9))})
	w.runs = []proc.Run{run}
	w.pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.run(time.Second)
	w.check(t, "0s stop c 9s")
}

func TestExpand(t *testing.T) {
	value := func(name string) (string, bool) { return "<" + name + ">", name == "A" || name == "B" }
	for text, want := range map[string]string{
		"": "", "$": "$", "$$": "$", "$(A)": "<A>", "x$(A)y$(B)z": "x<A>y<B>z", "$(C)": "$(C)", "$$(A)": "$(A)", "$$$(A)": "$<A>",
		"$(A": "$(A", "$A": "$A", "$(A)$": "<A>$", "$()": "$()", "$(A$(B))": "$(A$(B))",
	} {
		if got := expand(text, value); got != want {
			t.Errorf("expand %q: got %q, want %q", text, got, want)
		}
	}
}

func TestPrograms(t *testing.T) {
	programs := map[string]string{"nginx": "bin/nginx", "r.example.com/team/app": "go://./cmd/app", "app:2": "/two",
		"tarred": "archive://../other/c.tar", "pulled": "registry://", "renamed": "registry://r.example.com/y"}
	mapping := func(image string) string { return programs[image] }
	for image, want := range map[string]string{
		"nginx": "/srv/bin/nginx", "nginx:1.2": "/srv/bin/nginx", "docker.io/library/nginx:1@sha256:ab": "/srv/bin/nginx",
		"r.example.com/team/app:v1": "package ./cmd/app", "app:2": "/two", "file:///bin/sh": "/bin/sh", "file:///a%20b": "/a b",
		"go://./cmd/x": "package ./cmd/x", "go://example.com/m": "package example.com/m",
		"archive:///a/b.tar": "archive /a/b.tar", "archive://./b.tar": "archive /srv/b.tar", "tarred": "archive /other/c.tar",
		"registry://r.example.com/x:1": "reference r.example.com/x:1", "pulled:2": "reference pulled:2", "renamed": "reference r.example.com/y",
	} {
		p, err := programOf(image, mapping, "/srv")
		path := p.path
		for kind, text := range map[string]string{"package ": p.pkg, "archive ": p.archive, "reference ": p.reference} {
			if text != "" {
				path += kind + text
			}
		}
		if err != nil || path != want {
			t.Errorf("image %q: got %q, %v, want %q", image, path, err, want)
		}
	}
	for _, image := range []string{
		"other", "app", "file://../../bin/sh", "file://bin/sh", "file:///a/../b", "file:///a%00b", "file://", "go://", "go://-toolexec=x",
		"go:///etc", "go://../x", "go://./../x", "go://./...", "go://a b",
		"archive://../x.tar", "archive://", "archive://a\x00b", "registry://", "registry://a b", "registry://file:///x",
	} {
		if p, err := programOf(image, mapping, "/srv"); err == nil {
			t.Errorf("image %q: got %+v, want an error", image, p)
		}
	}
	_, err := programOf("other:1", mapping, "/srv")
	if want := `map it with "kapok image set other:1=PROGRAM"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an image without a mapping: got %v, want %s", err, want)
	}
	programs["*"] = "/any"
	if p, err := programOf("other:1", mapping, "/srv"); err != nil || p.path != "/any" {
		t.Errorf("an image with the mapping of all: got %+v, %v", p, err)
	}
	if p, err := programOf("app:2", mapping, "/srv"); err != nil || p.path != "/two" {
		t.Errorf("an image with a mapping of its own: got %+v, %v", p, err)
	}
}
