package simulated_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/simulated"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const userAgent = "simulated"

// newManager returns a manager that runs the simulation.
func newManager(t testing.TB, cfg *rest.Config, o simulated.Options) manager.Manager {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = userAgent
	mo := manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)}
	mo.Controller.Logger = mo.Logger
	mo.Cache.UnsafeSharedEvents = true // as controllers have it
	mo.Cache.MutationDetected = func(kind schema.GroupVersionKind, key client.ObjectKey, diff string) {
		t.Errorf("%s %s was changed in the cache: %s", kind.Kind, key, diff)
	}
	m, err := manager.New(cfg, mo)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Add(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// start runs a simulation with some nodes.
func start(t testing.TB, env *kapoktest.Env, nodes int) {
	t.Helper()
	env.Go(newManager(t, env.Config(), simulated.Options{Nodes: nodes}).Start)
}

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
	}
}

// simulating adds the annotation to a pod.
func simulating(p *corev1.Pod, simulation string) *corev1.Pod {
	p.Annotations = map[string]string{simulated.SimulationAnnotation: simulation}
	return p
}

// schedule binds pods to nodes, as no scheduler runs, until the test ends.
func schedule(t testing.TB, env *kapoktest.Env, nodes ...string) {
	c, err := client.NewWithWatch(env.Server().Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env.Go(func(ctx context.Context) error {
		w, err := c.Watch(ctx, &corev1.PodList{}, client.MatchingFields{byNode: ""})
		if err != nil {
			return err
		}
		defer w.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return nil
			case e, more := <-w.ResultChan():
				if !more {
					return nil
				}
				p, ok := e.Object.(*corev1.Pod)
				if !ok || e.Type != watch.Added {
					continue
				}
				to := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodes[i%len(nodes)]}}
				if err := c.SubResource("binding").Create(ctx, p, to); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
	})
}

const byNode = "spec.nodeName"

// A log notes what happens to pods, with the time since its beginning.
type log struct {
	begin time.Time
	stop  func()

	mu    sync.Mutex
	lines []string
}

// follow notes each state of pods in a line of note, if it differs from the last one.
func follow(t testing.TB, env *kapoktest.Env, note func(p *corev1.Pod) string) *log {
	l := &log{begin: time.Now()}
	l.stop = watchPods(t, env, func(e watch.Event) {
		p, ok := e.Object.(*corev1.Pod)
		if !ok {
			return
		}
		line := note(p)
		if e.Type == watch.Deleted {
			line = "deleted"
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if line = time.Since(l.begin).Truncate(time.Second).String() + " " + line; len(l.lines) == 0 || after(l.lines[len(l.lines)-1]) != after(line) {
			l.lines = append(l.lines, line)
		}
	})
	return l
}

func after(line string) string {
	_, text, _ := strings.Cut(line, " ")
	return text
}

// watchPods calls note with each change of pods, until stop.
func watchPods(t testing.TB, env *kapoktest.Env, note func(watch.Event)) (stop func()) {
	t.Helper()
	c, err := client.NewWithWatch(env.Server().Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace("default"))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for e := range w.ResultChan() {
			note(e)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// want ends the log, and compares its lines.
func (l *log) want(t testing.TB, lines ...string) {
	t.Helper()
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if got, want := strings.Join(l.lines, "\n\t"), strings.Join(lines, "\n\t"); got != want {
		t.Errorf("got\n\t%s\nwant\n\t%s", got, want)
	}
}

// state is the state of the first container of a pod.
func state(p *corev1.Pod) string {
	line := string(p.Status.Phase)
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Running != nil:
			line += " running"
		case s.State.Waiting != nil:
			line += " " + s.State.Waiting.Reason
		case s.State.Terminated != nil:
			line += " " + s.State.Terminated.Reason
		}
		line += strings.Repeat("+", int(s.RestartCount))
	}
	return line
}

// eventsOf returns the reasons and messages of events.
func eventsOf(t testing.TB, env *kapoktest.Env) (all []string) {
	t.Helper()
	var list corev1.EventList
	if err := env.Client().List(t.Context(), &list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Source.Component == "kubelet" {
			all = append(all, e.Source.Host+" "+e.Reason+" "+e.Message)
		}
	}
	return all
}
