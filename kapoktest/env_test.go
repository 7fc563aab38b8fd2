package kapoktest_test

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // client-go logs each interrupted watch
	goleak.VerifyTestMain(m)
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

func serviceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name, "namespace": "default"}}}
}

func TestStart(t *testing.T) {
	env := kapoktest.Start(t)
	cm := configMap("a")
	env.Create(cm)
	if !env.Exists(cm) || env.Exists(configMap("b")) {
		t.Error("existing objects are missing, or deleted ones exist")
	}
	env.Update(cm, func() { cm.Data = map[string]string{"k": "v"} })
	again := configMap("a")
	env.Get(again)
	if again.Data["k"] != "v" {
		t.Errorf("got %v", again.Data)
	}
	env.Delete(cm, cm)
	env.WaitGone(t.Context(), cm)
}

// TestParallel checks that concurrent tests share nothing.
func TestParallel(t *testing.T) {
	for n := range 20 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			env := kapoktest.Start(t)
			env.Create(configMap("same"))
		})
	}
}

//go:embed testdata/crd
var crds embed.FS

func TestCRDs(t *testing.T) {
	for name, opt := range map[string]kapoktest.Option{
		"folder":      kapoktest.CRDs("testdata"),
		"file":        kapoktest.CRDs("testdata/crd/widget.yaml"),
		"file system": kapoktest.CRDsOf(crds),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := kapoktest.Start(t, opt)
			w := widget("a")
			env.Create(w)
			if size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size"); size != 0 {
				t.Errorf("size %d of no spec", size)
			}
			env.UpdateStatus(w, func() { w.Object["status"] = map[string]any{"ready": true} })
			env.WaitFor(t.Context(), w, func() bool {
				ready, _, _ := unstructured.NestedBool(w.Object, "status", "ready")
				return ready
			})
			if env.Exists(configMap("passed-over")) {
				t.Error("an invalid definition was created")
			}
		})
	}
}

func TestCRDsFromModule(t *testing.T) {
	env := kapoktest.Start(t, kapoktest.CRDsFromModule("github.com/kapok-dev/kapok", "kapoktest/testdata/crd"))
	env.Create(widget("a"))
}

func TestObjects(t *testing.T) {
	env := kapoktest.Start(t, kapoktest.CRDs("testdata/crd"), kapoktest.YAML(`
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: later}
spec: {size: 3}
status: {ready: true}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata: {name: later}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: here}
`))
	w := widget("w")
	w.SetNamespace("later")
	env.Get(w)
	if ready, _, _ := unstructured.NestedBool(w.Object, "status", "ready"); !ready {
		t.Errorf("the status is lost: %v", w.Object)
	}
	if !env.Exists(configMap("here")) {
		t.Error("an object without a namespace is not in the namespace default")
	}
}

// TestStatusWithoutSubresource creates objects of a kind without a status subresource, which keep
// their status.
func TestStatusWithoutSubresource(t *testing.T) {
	definition, err := os.ReadFile("testdata/crd/widget.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crd.yaml"), []byte(strings.Replace(string(definition), "subresources: {status: {}}", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	env := kapoktest.Start(t, kapoktest.CRDs(dir), kapoktest.YAML(`
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
status: {ready: true}
`))
	w := widget("w")
	env.Get(w)
	if ready, _, _ := unstructured.NestedBool(w.Object, "status", "ready"); !ready {
		t.Errorf("the status is lost: %v", w.Object)
	}
}

// A failing is a TB that records failures.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (f *failing) Errorf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }
func (f *failing) Helper()                           {}

// A panicking is a TB like that of Ginkgo, whose Errorf panics after it has recorded the failure.
type panicking struct{ testing.TB }

func (p panicking) Errorf(format string, args ...any) {
	p.TB.Errorf(format, args...)
	panic("your test panicked")
}

// fails runs a function that must fail, and returns the message.
func fails(t *testing.T, run func(t testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(f)
	}()
	<-done
	return f.text
}

func TestFailures(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		run  func(t testing.TB)
		want []string
	}{
		{"no path of definitions", func(t testing.TB) { kapoktest.Start(t, kapoktest.CRDs()) }, []string{"custom resources: no path"}},
		{"no path of objects", func(t testing.TB) { kapoktest.Start(t, kapoktest.Objects()) }, []string{"objects: no path"}},
		{"unknown field", func(t testing.TB) {
			kapoktest.Start(t, kapoktest.YAML("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndaat: {}"))
		}, []string{"create ConfigMap default/a", "daat"}},
		{"no YAML in a folder", func(t testing.TB) { kapoktest.Start(t, kapoktest.Objects(filepath.Dir(wrong))) }, []string{wrong}},
		{"no folder", func(t testing.TB) { kapoktest.Start(t, kapoktest.CRDs("nowhere")) }, []string{"custom resources: stat nowhere"}},
		{"no definition", func(t testing.TB) { kapoktest.Start(t, kapoktest.CRDs("testdata/crd/kustomization.yaml")) }, []string{"want at least one CustomResourceDefinition"}},
		{"no YAML", func(t testing.TB) { kapoktest.Start(t, kapoktest.Objects(wrong)) }, []string{wrong}},
		{"no kind", func(t testing.TB) { kapoktest.Start(t, kapoktest.YAML("metadata: {name: a}")) }, []string{"an object has no apiVersion or no kind"}},
		{"no module", func(t testing.TB) { kapoktest.Start(t, kapoktest.CRDsFromModule("example.com/none")) }, []string{"module example.com/none"}},
		{"invalid object", func(t testing.TB) { kapoktest.Start(t).Create(configMap("A")) }, []string{"create ConfigMap default/A", "is invalid"}},
		{"wait without end", func(t testing.TB) {
			env := kapoktest.Start(t)
			cm := configMap("a")
			env.Create(cm)
			env.Update(cm, func() { cm.Data = map[string]string{"color": "red"} })
			env.Update(cm, func() { cm.Data["color"] = "green" })
			env.Delete(cm)
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			env.Create(configMap("a"))
			env.WaitFor(ctx, cm, func() bool {
				if n++; n == 1 {
					cancel()
				}
				return false
			})
		}, []string{"wait for ConfigMap default/a: the condition was never true", "--- added at", "+ data:", "-   color: red", "+   color: green", "--- deleted at"}},
		{"settle outside a bubble", func(t testing.TB) { kapoktest.Start(t).Settle() }, []string{"Settle must be called in a Bubble"}},
		{"user without a name", func(t testing.TB) { kapoktest.Start(t).User("", kapoktest.Can("get", "pods")) }, []string{"the user name must not be empty"}},
		{"as a user without a name", func(t testing.TB) { kapoktest.Start(t).As("", "devs") }, []string{"the user name must not be empty"}},
		{"no probability", func(t testing.TB) { kapoktest.Start(t, kapoktest.WithFaults(1, kapoktest.Faults{Lost: 5})) }, []string{"Faults.Lost is 5: want a probability"}},
		{"not a number", func(t testing.TB) {
			kapoktest.Start(t, kapoktest.WithFaults(1, kapoktest.Faults{StaleGet: math.NaN()}))
		}, []string{"Faults.StaleGet is NaN: want a probability"}},
		{"many refusals", func(t testing.TB) {
			env := kapoktest.Start(t)
			cms := clientOf(t, env.As("jane")).CoreV1().ConfigMaps("default")
			for n := range 12 {
				_, _ = cms.Get(t.Context(), fmt.Sprint("cm-", n), metav1.GetOptions{})
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			env.WaitFor(ctx, configMap("a"), func() bool { return false })
		}, []string{`"cm-9" is forbidden`, "and 2 more"}},
		{"beside the test", func(t testing.TB) {
			env := kapoktest.Start(t)
			env.Go(func(context.Context) error { return errors.New("no matches for kind") })
			env.WaitFor(t.Context(), configMap("a"), func() bool { return false })
		}, []string{"wait for ConfigMap default/a", "function in Env.Go: no matches for kind"}},
		{"panic beside the test", func(t testing.TB) {
			env := kapoktest.Start(t)
			env.Go(func(context.Context) error { panic("oh") })
			env.WaitGone(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		}, []string{"wait for the deletion of Namespace default", "function in Env.Go: panic: oh", "env_test.go"}},
		{"error beside a test whose failures panic", func(t testing.TB) {
			env := kapoktest.Start(panicking{t})
			env.Go(func(context.Context) error { return errors.New("no matches for kind") })
			env.WaitFor(t.Context(), configMap("a"), func() bool { return false })
		}, []string{"wait for ConfigMap default/a", "function in Env.Go: no matches for kind"}},
		{"panic beside a test whose failures panic", func(t testing.TB) {
			env := kapoktest.Start(panicking{t})
			env.Go(func(context.Context) error { panic("oh") })
			env.WaitFor(t.Context(), configMap("a"), func() bool { return false })
		}, []string{"wait for ConfigMap default/a", "function in Env.Go: panic: oh"}},
		{"end beside the test", func(t testing.TB) {
			env := kapoktest.Start(t)
			env.Go(func(context.Context) error { t.Fatalf("end"); return nil })
			env.WaitFor(t.Context(), configMap("a"), func() bool { return false })
		}, []string{"wait for ConfigMap default/a", "a function in Env.Go ended the test"}},
		{"another context beside the test", func(t testing.TB) {
			env := kapoktest.Start(t)
			env.Go(func(context.Context) error { return fmt.Errorf("load: %w", context.Canceled) })
			env.WaitFor(t.Context(), configMap("a"), func() bool { return false })
		}, []string{"wait for ConfigMap default/a", "function in Env.Go: load: context canceled"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := fails(t, tc.run)
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

// TestErrorsAtTheEnd checks that functions that end with the test return no other error than that
// of the context, or of the test.
func TestErrorsAtTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		err  func(canceled error) error
		want string // "" for no failure
	}{
		"the context's":       {func(err error) error { return err }, ""},
		"wrapped":             {func(err error) error { return &url.Error{Op: "Get", URL: "/", Err: fmt.Errorf("ask: %w", err)} }, ""},
		"several times":       {func(err error) error { return fmt.Errorf("stop: %w", errors.Join(err, fmt.Errorf("ask: %w", err))) }, ""},
		"in an aggregate":     {func(err error) error { return utilerrors.NewAggregate([]error{err, err}) }, ""},
		"joined":              {func(err error) error { return errors.Join(errors.New("3 objects lost"), err) }, "3 objects lost"},
		"wrapped with others": {func(err error) error { return fmt.Errorf("flush: %w: %w", io.ErrShortWrite, err) }, "flush: short write"},
		"others in aggregate": {func(err error) error { return utilerrors.NewAggregate([]error{err, io.ErrShortWrite}) }, "short write"},
		"another":             {func(error) error { return context.DeadlineExceeded }, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &failing{TB: t}
			t.Cleanup(func() { // after the end of the Env
				if tc.want == "" && f.text != "" || !strings.Contains(f.text, tc.want) {
					t.Errorf("it says %q", f.text)
				}
			})
			env := kapoktest.Start(f)
			env.Go(func(ctx context.Context) error {
				<-ctx.Done()
				return tc.err(ctx.Err())
			})
			ended := make(chan struct{})
			t.Cleanup(func() { <-ended }) // before the end of the Env
			env.Go(func(context.Context) error {
				defer close(ended)
				<-t.Context().Done()
				return tc.err(t.Context().Err())
			})
		})
	}
}

func TestRequests(t *testing.T) {
	env := kapoktest.Start(t)
	client, err := kubernetes.NewForConfig(env.As("eve", "spies"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("got %v", err)
	}
	env.Create(configMap("own")) // not a request of the program under test
	writes := env.Writes()
	if len(writes) != 1 || writes[0].User != "eve" || writes[0].Code != 403 || writes[0].Path != "/api/v1/namespaces/default/configmaps" {
		t.Errorf("got %+v", writes)
	}
}

func TestGolden(t *testing.T) {
	env := kapoktest.Start(t, kapoktest.CRDs("testdata/crd"))
	w := widget("a")
	env.Create(w)
	env.Create(configMap("b"))
	env.Golden("testdata/golden/state.yaml", widget("any"))
	cm := configMap("z")
	cm.Namespace = "default"
	cm.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w, w.GroupVersionKind())}
	env.Create(cm)
	if os.Getenv("KAPOKTEST_UPDATE") != "" {
		return
	}
	text := fails(t, func(tb testing.TB) {
		other := kapoktest.Start(tb, kapoktest.CRDs("testdata/crd"))
		changed := widget("a")
		changed.Object["spec"] = map[string]any{"size": int64(7)}
		other.Create(changed)
		other.Golden("testdata/golden/state.yaml", widget("any"))
	})
	if !strings.Contains(text, "+   size: 7") {
		t.Errorf("the failure says\n%s", text)
	}
}

// TestBubble runs a week of virtual time with client-go's informers and the server's garbage
// collection.
func TestBubble(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		begin := time.Now()
		if begin.Format(time.DateOnly) != "2000-01-01" {
			t.Errorf("begins at %v", begin)
		}
		client, err := kubernetes.NewForConfig(env.Config())
		if err != nil {
			t.Fatal(err)
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		seen := map[string]bool{}
		if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { seen[o.(*corev1.ConfigMap).Name] = true },
		}); err != nil {
			t.Fatal(err)
		}
		env.Go(func(ctx context.Context) error {
			factory.Start(ctx.Done())
			<-ctx.Done()
			factory.Shutdown()
			return nil
		})
		owner := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: "default"}}
		owner.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		owner.Spec.Template.Labels = owner.Spec.Selector.MatchLabels
		owner.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		env.Create(owner)
		for day := range 7 {
			cm := configMap(fmt.Sprintf("day-%d", day))
			cm.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
			env.Create(cm)
			time.Sleep(24 * time.Hour)
		}
		env.Settle()
		if len(seen) < 7 {
			t.Errorf("the informer saw %v", seen)
		}
		env.Delete(owner)
		env.Settle()
		if env.Exists(configMap("day-3")) {
			t.Error("the dependent still exists")
		}
		if took := time.Since(begin); took < 7*24*time.Hour || took > 7*24*time.Hour+time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// TestCleanup checks that objects that a test's cleanup needs exist until it has run.
func TestCleanup(t *testing.T) {
	env := kapoktest.Start(t)
	cm := configMap("a")
	env.Create(cm)
	t.Cleanup(func() {
		env.Delete(cm)
		if env.Exists(cm) {
			t.Error("it still exists")
		}
	})
}

func TestDefaultNamespace(t *testing.T) {
	env := kapoktest.Start(t)
	named := func() *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}} }
	env.Create(named())
	env.Get(named())
	cm := named()
	env.Update(cm, func() { cm.Data = map[string]string{"k": "v"} })
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	env.UpdateStatus(ns, func() {})
	if !env.Exists(named()) {
		t.Error("it does not exist")
	}
	env.Delete(named())
	if env.Exists(named()) {
		t.Error("it still exists")
	}
}

// TestWaitWithoutDeadline checks that a wait without a deadline in its context ends, in a bubble
// after a minute of its time.
func TestWaitWithoutDeadline(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		begin := time.Now()
		text := fails(t, func(tb testing.TB) {
			kapoktest.WaitForWith(env, tb, t.Context(), configMap("a"), func() bool { return false })
		})
		if took := time.Since(begin).Round(time.Minute); took != time.Minute || !strings.Contains(text, "the limit for a context without a deadline") {
			t.Errorf("after %v it says %q", took, text)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin = time.Now()
		fails(t, func(tb testing.TB) {
			kapoktest.WaitForWith(env, tb, ctx, configMap("a"), func() bool { return false })
		})
		if took := time.Since(begin).Round(time.Minute); took != time.Hour {
			t.Errorf("with a deadline it took %v", took)
		}
	})
}

// TestConditionEndsTheTest ends the test from a condition, while more events are pending: no watch
// may be left behind.
func TestConditionEndsTheTest(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		cm := configMap("a")
		env.Create(cm)
		text := fails(t, func(tb testing.TB) {
			seen := configMap("a")
			env.WaitFor(t.Context(), seen, func() bool {
				if seen.Data == nil { // before the watch begins
					for n := range 3 {
						env.Update(cm, func() { cm.Data = map[string]string{"n": fmt.Sprint(n)} })
					}
					return false
				}
				time.Sleep(time.Second) // until the next event has arrived
				tb.Fatalf("enough")
				return false
			})
		})
		if text != "enough" {
			t.Errorf("it says %q", text)
		}
	})
}

// TestUpdateAgain checks that an update is retried after concurrent writes, for a limited time.
func TestUpdateAgain(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		w := widget("a")
		env.Create(w)
		write := func() {
			other := widget("a")
			env.Update(other, func() { other.SetAnnotations(map[string]string{"after": other.GetResourceVersion()}) })
		}
		n := 0
		env.Update(w, func() {
			if n++; n < 20 {
				write()
			}
			w.SetLabels(map[string]string{"n": fmt.Sprint(n)})
		})
		n = 0
		env.UpdateStatus(w, func() {
			if n++; n < 20 {
				write()
			}
			w.Object["status"] = map[string]any{"ready": true}
		})
		env.Get(w)
		if w.GetLabels()["n"] != "20" || !ready(w)() {
			t.Errorf("it is %v", w.Object)
		}
		end := time.Now().Add(time.Second)
		text := fails(t, func(tb testing.TB) { kapoktest.UpdateWith(env, dated{tb, end}, w, write) })
		if time.Now().After(end) || !strings.Contains(text, "the object has been modified") {
			t.Errorf("after %v it says %q", time.Since(end), text)
		}
	}, kapoktest.CRDs("testdata/crd"))
}

// A dated is a TB whose binary ends soon.
type dated struct {
	testing.TB
	end time.Time
}

func (d dated) Deadline() (time.Time, bool) { return d.end, true }

func TestWaitEndsBeforeTheBinary(t *testing.T) {
	env := kapoktest.Start(t)
	end := time.Now().Add(200 * time.Millisecond)
	text := fails(t, func(tb testing.TB) {
		kapoktest.WaitForWith(env, dated{tb, end}, t.Context(), configMap("a"), func() bool { return false })
	})
	if !strings.Contains(text, "the timeout of the test binary is almost reached") {
		t.Errorf("it says %q", text)
	}
}
