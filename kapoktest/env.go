package kapoktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/server"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// An Env is an API server for one test. [Start] returns one; [Bubble], [BubbleSuite] and [Explore]
// pass one to their function.
type Env struct {
	t       testing.TB
	backend *backend
	scheme  *runtime.Scheme
	client  client.WithWatch // of the Env itself
	tests   client.WithWatch // of the test
	record  *recorder
	faults  *injector       // nil if nothing goes wrong
	began   string          // the resourceVersion from which on the test's changes are
	test    context.Context // of the test; it ends before ctx does
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	sound   context.Context // ends with ctx, or when something that runs beside the test fails, which is its cause
	abandon context.CancelCauseFunc

	telling sync.Mutex
	told    testing.TB // receives failures of background work

	webhooks *webhooks    // nil without the option
	granted  atomic.Int64 // how many grants there have been

	stilling chan struct{} // holds a token while a goroutine is in synctest.Wait; not a mutex, for which a bubble would not be still
}

// An Option configures [Start], [Bubble], [BubbleSuite] or [Explore].
type Option func(*options)

type options struct {
	faults  *injector
	server  kapok.Options
	scheme  *runtime.Scheme
	crds    []func() ([]*unstructured.Unstructured, error)
	objects []func() ([]*unstructured.Unstructured, error)

	webhooks []webhooksAt
	blocked  time.Duration // of a bubble; 0 for the default

	schedule    *schedule // nil for whatever the seed says
	scheduleErr error
}

// Scheme sets the Scheme of the Env's clients. Default: the types of k8s.io/api.
func Scheme(s *runtime.Scheme) Option { return func(o *options) { o.scheme = s } }

// Server changes the options of the server. Default: everything in memory, and no log.
func Server(change func(*kapok.Options)) Option { return func(o *options) { change(&o.server) } }

// EmulatedVersion sets the release of Kubernetes that the server behaves as, 1.34 to 1.37. Default:
// 1.37.
func EmulatedVersion(release string) Option {
	return func(o *options) { o.server.EmulatedVersion = release }
}

// Controllers runs controllers in the server, such as Kubernetes' own, on which an operator under
// test may depend:
//
//	env := kapoktest.Start(t, kapoktest.Controllers(controllers.Options{Names: []string{"deployment", "replicaset"}}))
//
// No faults are injected into their requests. Default: none.
func Controllers(c kapok.Controllers) Option { return func(o *options) { o.server.Controllers = c } }

// Log sets the handler of the server's log. Default: no log.
func Log(to slog.Handler) Option { return func(o *options) { o.server.Logger = slog.New(to) } }

// Start starts a server, which stops with the test.
func Start(t testing.TB, opts ...Option) *Env {
	t.Helper()
	o := options{scheme: clientscheme.Scheme}
	for _, opt := range opts {
		opt(&o)
	}
	if o.scheduleErr != nil {
		t.Fatalf("schedule: %v", o.scheduleErr)
	}
	if o.schedule != nil {
		if o.faults == nil {
			o.faults = newInjector(0, Faults{})
		}
		o.faults.seed = o.schedule.seed
		o.faults.limit(o.schedule.faults)
	}
	if o.faults != nil {
		if err := o.faults.faults.check(); err != nil {
			t.Fatalf("faults: %v", err)
		}
	}
	if o.server.Listen != "" && inBubble() {
		t.Fatalf("listen at %s: a server in a bubble cannot listen: virtual time does not advance while a socket is open", o.server.Listen)
	}
	hooks, err := loadWebhooks(o.webhooks)
	if err != nil {
		t.Fatalf("webhooks: %v", err)
	}
	if hooks != nil {
		o.server.Webhooks.Services = hooks.service
	}
	e := start(t, o)
	t.Cleanup(e.stop)
	e.webhooks = hooks
	e.install(o)
	e.configure()
	return e
}

func start(t testing.TB, o options) *Env {
	t.Helper()
	e := &Env{t: t, told: t, test: t.Context(), scheme: o.scheme, stilling: make(chan struct{}, 1)}
	// The server outlives the context of the test, which ends before the clean-up of the test.
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	e.sound, e.abandon = context.WithCancelCause(e.ctx)
	store := memory.NewStore()
	ctx := context.WithoutCancel(t.Context())
	var err error
	e.backend, err = newBackend(func() (*kapok.Server, error) {
		running, err := server.StartOn(ctx, server.Options(o.server), server.Journals{Memory: store})
		started := (*kapok.Server)(running)
		if err == nil && o.server.Listen != "" {
			o.server.Listen = started.Address() // also of the next
		}
		return started, err
	}, func(err error) { e.tell(fmt.Errorf("restart the server: %w", err)) })
	if err != nil {
		e.cancel()
		t.Fatalf("start a server: %v", err)
	}
	var next http.RoundTripper = e.backend
	if e.faults = o.faults; e.faults != nil {
		e.faults.backend, e.backend.calm = e.backend, e.faults.over
		e.faults.bubble = inBubble()
		if o.server.DataDir == "" && o.server.Store == "" {
			e.faults.store = store
		}
		next = e.faults
	}
	e.record = newRecorder(next, e.fail)
	if e.client, err = client.NewWithWatch(e.own(), client.Options{Scheme: e.scheme, FieldOwner: "kapoktest"}); err != nil {
		e.stop()
		t.Fatalf("create a client: %v", err)
	}
	config := e.Config()
	config.UserAgent = testAgent
	// The Env discovers the server's resources itself, so that those requests do not count as the
	// test's.
	if e.tests, err = client.NewWithWatch(config, client.Options{Scheme: e.scheme, Mapper: e.client.RESTMapper(), FieldOwner: "kapoktest"}); err != nil {
		e.stop()
		t.Fatalf("create the client of the test: %v", err)
	}
	e.began = e.revision()
	return e
}

// stop ends the functions of Go, and then the server.
func (e *Env) stop() {
	e.cancel()
	e.backend.settle()
	e.running.Wait()
	if err := e.backend.stop(); err != nil {
		e.tell(fmt.Errorf("stop the server: %w", err))
	}
	if e.webhooks != nil {
		e.webhooks.asked.Wait()
	}
}

// Config returns a configuration for clients with the permissions of the admin. The caller owns it.
func (e *Env) Config() *rest.Config {
	c := e.Server().Config()
	c.Transport = e.record
	return c
}

// own returns the configuration of the Env's own clients.
func (e *Env) own() *rest.Config {
	c := e.Config()
	c.UserAgent = ownAgent
	return c
}

// revision returns the current resourceVersion.
func (e *Env) revision() string {
	e.t.Helper()
	namespaces := &unstructured.UnstructuredList{}
	namespaces.SetAPIVersion("v1")
	namespaces.SetKind("NamespaceList")
	if err := e.client.List(e.ctx, namespaces, client.Limit(1)); err != nil {
		e.t.Fatalf("get the current resourceVersion: %v", err)
	}
	return namespaces.GetResourceVersion()
}

// As returns a configuration for clients of another user, who is a member of the groups and of
// system:authenticated.
func (e *Env) As(user string, groups ...string) *rest.Config {
	e.t.Helper()
	if user == "" {
		e.t.Fatalf("the user name must not be empty: requests without a user are the admin's")
	}
	c := e.Config()
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return c
}

// Client returns a client with the permissions of the admin, the Scheme of the Env and the
// User-Agent "test". Like those of any client, its requests are subject to faults and recorded in
// [Env.Requests]. The Env's own methods are exempt from both.
func (e *Env) Client() client.WithWatch { return e.tests }

// Context returns a context that ends with the test, before the server stops. Background work of
// the test should end with it.
func (e *Env) Context() context.Context { return e.ctx }

// Server returns the running server; after a restart, the new one.
func (e *Env) Server() *kapok.Server { return e.backend.current() }

// Go runs a function in the background. The context of the function ends when the test ends, and
// the test then waits for the function to return. If the function panics or returns an error, the
// test fails and its pending waits end. The error of the context itself does not count once the
// test has ended.
func (e *Env) Go(run func(ctx context.Context) error) {
	e.running.Go(func() {
		returned := false
		defer func() {
			if reason := recover(); reason != nil {
				e.fail(fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
			} else if !returned {
				e.abandon(errors.New("a function in Env.Go ended the test"))
			}
		}()
		err := run(e.ctx)
		returned = true
		if over := e.ctx.Err() != nil || e.test.Err() != nil; err != nil && (!over || !isCanceled(err)) {
			e.fail(err)
		}
	})
}

// fail fails the test because of background work.
func (e *Env) fail(err error) {
	err = fmt.Errorf("function in Env.Go: %w", err)
	e.tell(err)
	e.abandon(err)
}

// tell fails the test without ending a goroutine: some TBs, such as Ginkgo's, panic after they have
// recorded a failure.
func (e *Env) tell(err error) {
	e.telling.Lock()
	defer e.telling.Unlock()
	defer func() { _ = recover() }()
	e.told.Errorf("%v", err)
}

// tellTo replaces the TB that failures are reported to.
func (e *Env) tellTo(t testing.TB) {
	e.telling.Lock()
	defer e.telling.Unlock()
	e.told = t
}

// Create creates objects, in the namespace default if they are namespaced and have none.
func (e *Env) Create(objs ...client.Object) {
	e.t.Helper()
	for _, obj := range objs {
		if err := e.create(obj); err != nil {
			e.t.Fatalf("create %s: %v", e.describe(obj), err)
		}
	}
}

func (e *Env) create(obj client.Object) error {
	if err := e.place(obj); err != nil {
		return err
	}
	return e.client.Create(e.ctx, obj)
}

// place sets the namespace default, if an object needs one.
func (e *Env) place(obj client.Object) error {
	namespaced, err := e.client.IsObjectNamespaced(obj)
	if err == nil && namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace("default")
	}
	return err
}

// Get reads the current state of an object into obj.
func (e *Env) Get(obj client.Object) {
	e.t.Helper()
	if err := e.get(obj); err != nil {
		e.t.Fatalf("get %s: %v", e.describe(obj), err)
	}
}

func (e *Env) get(obj client.Object) error {
	if err := e.place(obj); err != nil {
		return err
	}
	return e.client.Get(e.ctx, client.ObjectKeyFromObject(obj), obj)
}

// Exists reports whether an object exists.
func (e *Env) Exists(obj client.Object) bool {
	e.t.Helper()
	err := e.get(obj.DeepCopyObject().(client.Object))
	if err != nil && !apierrors.IsNotFound(err) {
		e.t.Fatalf("get %s: %v", e.describe(obj), err)
	}
	return err == nil
}

// Update reads an object, calls change, which changes obj in place, and writes obj. After a
// conflict it starts again, for one minute at most:
//
//	env.Update(web, func() { web.Spec.Paused = true })
//
// The test ends if the object does not exist, or the server rejects the update. Afterwards obj is
// the object as it was written.
func (e *Env) Update(obj client.Object, change func()) {
	e.t.Helper()
	err := e.retry(func() error {
		if err := e.get(obj); err != nil {
			return err
		}
		change()
		return e.client.Update(e.ctx, obj)
	})
	if err != nil {
		e.t.Fatalf("update %s: %v", e.describe(obj), err)
	}
}

// UpdateStatus is like Update, but for the status subresource: changes of obj outside of its status
// are not written.
//
//	env.UpdateStatus(web, func() { web.Status.ObservedGeneration = web.Generation })
func (e *Env) UpdateStatus(obj client.Object, change func()) {
	e.t.Helper()
	err := e.retry(func() error {
		if err := e.get(obj); err != nil {
			return err
		}
		change()
		return e.client.Status().Update(e.ctx, obj)
	})
	if err != nil {
		e.t.Fatalf("update the status of %s: %v", e.describe(obj), err)
	}
}

// retry retries change after a conflict, within the time of a wait.
func (e *Env) retry(change func() error) error {
	ctx, cancel := e.bounded(e.ctx)
	defer cancel()
	for {
		if err := client.RetryOnConflict(e.ctx, change); !apierrors.IsConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}

// Delete deletes objects. It ignores objects that do not exist.
func (e *Env) Delete(objs ...client.Object) {
	e.t.Helper()
	for _, obj := range objs {
		err := e.place(obj)
		if err == nil {
			err = client.IgnoreNotFound(e.client.Delete(e.ctx, obj))
		}
		if err != nil {
			e.t.Fatalf("delete %s: %v", e.describe(obj), err)
		}
	}
}

// isCanceled reports whether an error is context.Canceled and nothing else.
func isCanceled(err error) bool {
	var all []error
	switch err := err.(type) {
	case interface{ Unwrap() []error }:
		all = err.Unwrap()
	case utilerrors.Aggregate:
		all = err.Errors()
	case interface{ Unwrap() error }:
		all = []error{err.Unwrap()}
	default:
		return errors.Is(err, context.Canceled)
	}
	return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !isCanceled(err) })
}

// describe returns the name of an object for messages.
func (e *Env) describe(obj client.Object) string {
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := client.GVKForObject(obj, e.scheme); err == nil {
		kind = gvk.Kind
	}
	name := obj.GetName()
	if name == "" {
		name = obj.GetGenerateName() + "..."
	}
	if ns := obj.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return kind + " " + name
}

// patience limits the time that the Env itself waits for the server. In a bubble that is virtual
// time.
const patience = 30 * time.Second
