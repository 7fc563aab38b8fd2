package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/ctrl"
	"github.com/kapok-dev/kapok/examples/at/api/v1alpha1"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const crd = "manifests/crd/cnat.programming-kubernetes.info_ats.yaml"

// A world is a server, in a synctest bubble: in virtual time.
type world struct {
	*testing.T    // that of the bubble: outside of it, nothing is reported
	client.Client // straight to the server
	ctx           context.Context
	config        *rest.Config
	managers      sync.WaitGroup

	mu   sync.Mutex
	logs strings.Builder
}

// inWorld runs a test in a world that knows Ats by a definition.
func inWorld(t *testing.T, crd string, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		server, err := kapok.Start(context.Background(), kapok.Options{V1beta1CRDs: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		w := &world{T: t, ctx: ctx, config: server.Config()}
		defer func() {
			cancel()
			w.managers.Wait()
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
			if t.Failed() && testing.Verbose() {
				t.Log(w.logs.String())
			}
		}()
		scheme, err := newScheme()
		if err != nil {
			t.Fatal(err)
		}
		if w.Client, err = client.New(w.config, client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
		w.apply(crd)
		time.Sleep(time.Second) // until it is established
		test(w)
	})
}

// apply creates the object of a file, or of YAML, in namespace default.
func (w *world) apply(manifest string) {
	w.Helper()
	if err := w.try(manifest); err != nil {
		w.Fatal(err)
	}
}

func (w *world) try(manifest string) error {
	w.Helper()
	data := []byte(manifest)
	if !strings.Contains(manifest, "\n") {
		var err error
		if data, err = os.ReadFile(filepath.FromSlash(manifest)); err != nil {
			w.Fatal(err)
		}
	}
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(data, &o.Object); err != nil {
		w.Fatal(err)
	}
	if o.GetKind() == "At" {
		o.SetNamespace("default")
	}
	return w.Create(w.ctx, &o)
}

// run starts a manager. The function that it returns stops it.
func (w *world) run() (stop func()) {
	w.Helper()
	options := ctrl.Options{Logger: funcr.New(func(_, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		fmt.Fprintln(&w.logs, args)
	}, funcr.Options{})}
	mgr, err := newManager(w.config, options)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	w.managers.Go(func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			w.Error(err)
		}
	})
	time.Sleep(time.Second) // until it runs
	return func() { cancel(); <-done }
}

// logged returns the number of occurrences of a text in the logs.
func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.logs.String(), text)
}

// at creates an At.
func (w *world) at(name, schedule, command string) {
	w.Helper()
	at := &v1alpha1.At{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1alpha1.AtSpec{Schedule: schedule, Command: command}}
	if err := w.Create(w.ctx, at); err != nil {
		w.Fatal(err)
	}
}

// move changes the schedule of an At.
func (w *world) move(name, schedule string) {
	w.Helper()
	var at v1alpha1.At
	if err := w.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: name}, &at); err != nil {
		w.Fatal(err)
	}
	at.Spec.Schedule = schedule
	if err := w.Update(w.ctx, &at); err != nil {
		w.Fatal(err)
	}
}

// phase is the phase of an At as soon as nothing moves any more.
func (w *world) phase(name string) string {
	w.Helper()
	synctest.Wait()
	var at v1alpha1.At
	if err := w.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: name}, &at); err != nil {
		w.Fatal(err)
	}
	return at.Status.Phase
}

// pod returns the pod of an At, or nil.
func (w *world) pod(at string) *corev1.Pod {
	w.Helper()
	synctest.Wait()
	var pod corev1.Pod
	err := w.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: at + "-pod"}, &pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return &pod
}

// set does to a pod what a kubelet does: it has a phase now.
func (w *world) set(pod *corev1.Pod, phase corev1.PodPhase) {
	w.Helper()
	pod.Status.Phase = phase
	if err := w.Status().Update(w.ctx, pod); err != nil {
		w.Fatal(err)
	}
}

// utc is the schedule for a time from now.
func utc(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }

// TestWeekAhead is the life of an At: a week of waiting, a pod, its end.
func TestWeekAhead(t *testing.T) {
	const week = 7 * 24 * time.Hour
	inWorld(t, crd, func(w *world) {
		defer w.run()()
		w.at("example", utc(week), `echo "hello world"`)
		if got := w.phase("example"); got != "PENDING" {
			w.Errorf("the phase begins as %q", got)
		}
		time.Sleep(week - time.Second)
		if got := w.phase("example"); got != "PENDING" || w.pod("example") != nil {
			w.Errorf("a second before its time, the phase is %q, the pod %v", got, w.pod("example"))
		}

		time.Sleep(time.Second)
		pod := w.pod("example")
		if got := w.phase("example"); got != "RUNNING" || pod == nil {
			w.Fatalf("at its time, the phase is %q, the pod %v", got, pod)
		}
		container := pod.Spec.Containers[0]
		if diff := cmp.Diff([]string{"sh", "-c", `echo "hello world"`}, container.Command); diff != "" || container.Image != "busybox" {
			w.Errorf("the pod runs %s: %s", container.Image, diff)
		}
		if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			w.Errorf("the pod is restarted: %s", pod.Spec.RestartPolicy)
		}
		if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != "At" || owner.Name != "example" {
			w.Errorf("the pod belongs to %v", owner)
		}

		w.set(pod, corev1.PodRunning)
		time.Sleep(time.Hour)
		if got := w.phase("example"); got != "RUNNING" {
			w.Errorf("while the pod runs, the phase is %q", got)
		}
		w.set(w.pod("example"), corev1.PodSucceeded)
		if got := w.phase("example"); got != "DONE" {
			w.Errorf("after the end of the pod, the phase is %q", got)
		}

		// What is done is not done again.
		if err := w.Delete(w.ctx, w.pod("example"), client.GracePeriodSeconds(0)); err != nil {
			w.Fatal(err)
		}
		time.Sleep(week)
		if got := w.phase("example"); got != "DONE" || w.pod("example") != nil {
			w.Errorf("a week after its end, the phase is %q, the pod %v", got, w.pod("example"))
		}
	})
}

// TestManyAts: each at its own time, also when the controller was down then.
func TestManyAts(t *testing.T) {
	inWorld(t, crd, func(w *world) {
		stop := w.run()
		for day := range 7 {
			w.at(fmt.Sprint("day-", day), utc(time.Duration(day)*24*time.Hour), "true")
		}
		w.at("past", "2019-07-03T02:00:00Z", "true")
		w.at("epoch", "1970-01-01T00:00:00Z", "true")
		if w.phase("past") != "PENDING" || w.phase("epoch") != "RUNNING" { // a bubble begins in 2000
			w.Errorf("2019 is %s, 1970 is %s", w.phase("past"), w.phase("epoch"))
		}
		for day := range 7 {
			if day == 4 { // days 4 and 5 pass without a controller
				stop()
				time.Sleep(48 * time.Hour)
				defer w.run()()
				time.Sleep(time.Minute)
			}
			for other := range 7 {
				due := other <= day || day >= 4 && other <= 6 && other <= day+2
				if got := w.pod(fmt.Sprint("day-", other)) != nil; got != due {
					w.Errorf("day %d: there is a pod for day %d: %t", day, other, got)
				}
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// TestDeleteMany: pods are deleted with their Ats, mostly before the controller receives the event.
// No command runs again.
func TestDeleteMany(t *testing.T) {
	inWorld(t, crd, func(w *world) {
		defer w.run()()
		const n = 50
		for round := range 2 {
			for i := range n {
				w.at(fmt.Sprint("at-", i), "1999-07-03T02:00:00Z", "true")
			}
			time.Sleep(time.Minute)
			if err := w.DeleteAllOf(w.ctx, &v1alpha1.At{}, client.InNamespace("default")); err != nil {
				w.Fatal(err)
			}
			time.Sleep(time.Minute)
			w.mu.Lock()
			launched := strings.Count(w.logs.String(), `"pod launched"`)
			w.mu.Unlock()
			if want := (round + 1) * n; launched != want {
				w.Fatalf("%d pods have been made for %d Ats", launched, want)
			}
		}
	})
}

// TestRefused: what the schema does not let in, and what it cannot know, of which there is an
// event.
func TestRefused(t *testing.T) {
	inWorld(t, crd, func(w *world) {
		defer w.run()()
		const head = "apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\n"
		for _, at := range []string{
			"metadata: {name: a}",
			"metadata: {name: a}\nspec: {command: x}",
			"metadata: {name: " + strings.Repeat("a", 250) + "}\nspec: {schedule: '2030-01-01T00:00:00Z', command: x}",
		} {
			if err := w.try(head + at); !apierrors.IsInvalid(err) {
				w.Errorf("%s: %v", at, err)
			}
		}
		w.apply(head + "metadata: {name: a}\nspec: {schedule: '2026-02-30T00:00:00Z', command: x}")
		time.Sleep(time.Minute)
		var events corev1.EventList
		if err := w.List(w.ctx, &events, client.InNamespace("default")); err != nil {
			w.Fatal(err)
		}
		if len(events.Items) != 1 || events.Items[0].Reason != "InvalidSchedule" {
			w.Errorf("events %v", events.Items)
		}
	})
}

// TestChanges: an At that is moved runs at its new time, and goes with its pod.
func TestChanges(t *testing.T) {
	inWorld(t, crd, func(w *world) {
		defer w.run()()
		w.at("moved", utc(time.Hour), "true")
		if got := w.phase("moved"); got != "PENDING" {
			w.Errorf("the phase is %q", got)
		}
		w.move("moved", utc(3*time.Hour))
		time.Sleep(2 * time.Hour)
		if w.pod("moved") != nil {
			w.Error("it ran at its old time")
		}
		w.move("moved", utc(time.Minute))
		time.Sleep(2 * time.Minute)
		pod := w.pod("moved")
		if pod == nil {
			w.Fatal("it did not run at its new time")
		}

		// A pod that is lost before its end is made again.
		if err := w.Delete(w.ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			w.Fatal(err)
		}
		if again := w.pod("moved"); again == nil || again.UID == pod.UID {
			w.Errorf("after its loss, the pod is %v", again)
		}
		w.set(w.pod("moved"), corev1.PodFailed)
		if got := w.phase("moved"); got != "DONE" {
			w.Errorf("after the failure of its pod, the phase is %q", got)
		}

		at := &v1alpha1.At{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "moved"}}
		if err := w.Delete(w.ctx, at); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		if w.pod("moved") != nil {
			w.Error("the pod outlives its At")
		}
	})
}

// TestForeignPod checks that a pod of the same name without an owner is left alone, and does not
// count as the At's pod.
func TestForeignPod(t *testing.T) {
	inWorld(t, crd, func(w *world) {
		defer w.run()()
		foreign := newPod(&v1alpha1.At{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "taken"}})
		if err := w.Create(w.ctx, foreign); err != nil {
			w.Fatal(err)
		}
		w.at("taken", utc(0), "true")
		time.Sleep(time.Minute)
		if got := w.phase("taken"); got != "" {
			w.Errorf("the phase is %q", got)
		}
		if w.logged("does not belong to At taken") == 0 {
			w.Error("nothing in the log about the foreign pod")
		}
		if err := w.Delete(w.ctx, foreign, client.GracePeriodSeconds(0)); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Hour) // the next try
		if pod := w.pod("taken"); pod == nil || w.phase("taken") != "RUNNING" {
			w.Errorf("after the foreign pod is gone, the phase is %q", w.phase("taken"))
		}
	})
}

// TestSchema: the server refuses what is no At.
func TestSchema(t *testing.T) {
	inWorld(t, crd, func(w *world) {
		for _, tt := range []struct{ spec, want string }{
			{`{schedule: "2019-07-03T02:00:00Z"}`, "spec.command: Required value"},
			{`{command: "true"}`, "spec.schedule: Required value"},
			{`{command: "true", schedule: tomorrow}`, `spec.schedule: Invalid value: "tomorrow": spec.schedule in body should match`},
			{`{command: "true", schedule: "2019-13-03T02:00:00Z"}`, "should match"},
			{`{command: "true", schedule: "2019-07-03T02:00:00+02:00"}`, "should match"},
			{`{command: "true", schedule: "2019-07-03T02:00:00Z", status: {}}`, ""},
		} {
			err := w.try("apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\nmetadata: {name: example}\nspec: " + tt.spec)
			if tt.want == "" {
				if err != nil {
					w.Errorf("%s: %v", tt.spec, err)
				}
				continue
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
				w.Errorf("%s: got %v, want %s", tt.spec, err, tt.want)
			}
		}
	})
}

// TestColumns: kubectl get shows schedule, command and phase.
func TestColumns(t *testing.T) {
	inWorld(t, crd, func(w *world) {
		defer w.run()()
		w.at("foo", "2019-07-03T02:00:00Z", `echo "hello world"`)
		if got := w.phase("foo"); got != "PENDING" {
			w.Errorf("the phase is %q", got)
		}
		table := w.table()
		var names []string
		for _, c := range table.ColumnDefinitions {
			names = append(names, strings.ToUpper(c.Name))
		}
		if diff := cmp.Diff([]string{"NAME", "SCHEDULE", "COMMAND", "PHASE"}, names); diff != "" {
			w.Error(diff)
		}
		if len(table.Rows) != 1 {
			w.Fatalf("%d rows", len(table.Rows))
		}
		if diff := cmp.Diff([]any{"foo", "2019-07-03T02:00:00Z", `echo "hello world"`, "PENDING"}, table.Rows[0].Cells); diff != "" {
			w.Error(diff)
		}
	})
}

// table lists Ats as kubectl get does.
func (w *world) table() (table metav1.Table) {
	w.Helper()
	hc, err := rest.HTTPClientFor(w.config)
	if err != nil {
		w.Fatal(err)
	}
	defer hc.CloseIdleConnections()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodGet,
		w.config.Host+"/apis/cnat.programming-kubernetes.info/v1alpha1/namespaces/default/ats?limit=500", nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	response, err := hc.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		w.Fatal(err)
	}
	return table
}

// TestFirstDefinition runs Ats on the definition that the document begins with: v1beta1, and
// without a schema; and the At that it begins with, which has no command.
func TestFirstDefinition(t *testing.T) {
	inWorld(t, "testdata/at-crd.yaml", func(w *world) {
		defer w.run()()
		w.apply("testdata/at.yaml")
		if got := w.phase("example-at"); got != "PENDING" {
			w.Errorf("the phase is %q", got)
		}
		w.move("example-at", utc(time.Hour))
		time.Sleep(time.Hour)
		pod := w.pod("example-at")
		if pod == nil {
			w.Fatal("it did not run at its time")
		}
		w.set(pod, corev1.PodSucceeded)
		if got := w.phase("example-at"); got != "DONE" {
			w.Errorf("the phase is %q", got)
		}
	})
}

// TestBadSchedule: without a schema schedules can be invalid. The controller waits for a valid one.
func TestBadSchedule(t *testing.T) {
	inWorld(t, "testdata/at-crd.yaml", func(w *world) {
		defer w.run()()
		w.at("bad", "tomorrow", "true")
		time.Sleep(time.Hour)
		if got := w.phase("bad"); got != "" || w.logged("unable to schedule") != 1 {
			w.Errorf("the phase is %q, and the log speaks of it %d times", got, w.logged("unable to schedule"))
		}
		w.move("bad", utc(-time.Second))
		if got := w.phase("bad"); got != "RUNNING" {
			w.Errorf("the phase is %q", got)
		}
	})
}
