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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// An Env is an API server for one test. Make one with [Start] or [Bubble].
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
	told    testing.TB // who is told of what fails beside the test

	webhooks *webhooks    // nil without the option
	granted  atomic.Int64 // how many grants there have been

	stilling chan struct{} // holds a token while somebody is in synctest.Wait; not a mutex, for which a bubble would not be still
}

// An Option changes what [Start] and [Bubble] make.
type Option func(*options)

type options struct {
	faults  *injector
	server  kapok.Options
	scheme  *runtime.Scheme
	crds    []func() ([]*unstructured.Unstructured, error)
	objects []func() ([]*unstructured.Unstructured, error)

	webhooks []webhooksAt
}

// Scheme has the Env know the Go types of a Scheme. Default: those of k8s.io/api.
func Scheme(s *runtime.Scheme) Option { return func(o *options) { o.scheme = s } }

// Server changes the settings of the server. Default: everything in memory, and no log.
func Server(change func(*kapok.Options)) Option { return func(o *options) { change(&o.server) } }

// Log has the server tell what goes wrong.
func Log(to slog.Handler) Option { return func(o *options) { o.server.Logger = slog.New(to) } }

// Start starts a server, which ends with the test.
func Start(t testing.TB, opts ...Option) *Env {
	t.Helper()
	o := options{scheme: clientscheme.Scheme}
	for _, opt := range opts {
		opt(&o)
	}
	if o.faults != nil {
		if err := o.faults.faults.check(); err != nil {
			t.Fatalf("faults: %v", err)
		}
	}
	if o.server.Listen != "" && inBubble() {
		t.Fatalf("listen at %s: a server in a bubble has no socket, as time would not pass while it is open", o.server.Listen)
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
	// The server outlives the context of the test, which ends before the test's own clean-up has ended.
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	e.sound, e.abandon = context.WithCancelCause(e.ctx)
	store := memory.NewStore()
	ctx := memory.WithStore(context.WithoutCancel(t.Context()), store)
	var err error
	e.backend, err = newBackend(func() (*kapok.Server, error) {
		server, err := kapok.Start(ctx, o.server)
		if err == nil && o.server.Listen != "" {
			o.server.Listen = server.Address() // also of the next
		}
		return server, err
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
		t.Fatalf("make a client: %v", err)
	}
	config := e.Config()
	config.UserAgent = "test"
	// What there is to ask for is for the Env to find out, so that those requests are not the test's.
	if e.tests, err = client.NewWithWatch(config, client.Options{Scheme: e.scheme, Mapper: e.client.RESTMapper(), FieldOwner: "kapoktest"}); err != nil {
		e.stop()
		t.Fatalf("make a client of the test: %v", err)
	}
	e.began = e.revision()
	return e
}

// stop ends what Go has begun, and then the server.
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

// Config returns a configuration for clients, which are the admin. It is the caller's to change.
func (e *Env) Config() *rest.Config {
	c := e.Server().Config()
	c.Transport = e.record
	return c
}

// own is the configuration of the Env's own clients.
func (e *Env) own() *rest.Config {
	c := e.Config()
	c.UserAgent = ownAgent
	return c
}

// revision returns the resourceVersion of now.
func (e *Env) revision() string {
	e.t.Helper()
	namespaces := &unstructured.UnstructuredList{}
	namespaces.SetAPIVersion("v1")
	namespaces.SetKind("NamespaceList")
	if err := e.client.List(e.ctx, namespaces, client.Limit(1)); err != nil {
		e.t.Fatalf("ask for the resourceVersion: %v", err)
	}
	return namespaces.GetResourceVersion()
}

// As returns a configuration for clients of another user, who is a member of the groups and of system:authenticated.
func (e *Env) As(user string, groups ...string) *rest.Config {
	e.t.Helper()
	if user == "" {
		e.t.Fatalf("a user without a name would be the admin")
	}
	c := e.Config()
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return c
}

// Client returns a client of the admin, with the Scheme of the Env and the User-Agent test. Its requests meet faults, and are among
// [Env.Requests], as those of any client: those of the Env's own methods do not, and are not.
func (e *Env) Client() client.WithWatch { return e.tests }

// Context returns a context that ends with the test, before the server does: what runs beside the test should end with it.
func (e *Env) Context() context.Context { return e.ctx }

// Server returns the server itself: the one that runs now, if there are restarts.
func (e *Env) Server() *kapok.Server { return e.backend.current() }

// Go runs something beside the test until its context ends, which is when the test does, and waits for its end. An error but
// that of the context, or of the test's own, when that has ended, fails the test, and so does a panic; waits of the test end then.
func (e *Env) Go(run func(ctx context.Context) error) {
	e.running.Go(func() {
		returned := false
		defer func() {
			if reason := recover(); reason != nil {
				e.fail(fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
			} else if !returned {
				e.abandon(errors.New("what runs beside the test has ended it"))
			}
		}()
		err := run(e.ctx)
		returned = true
		if over := e.ctx.Err() != nil || e.test.Err() != nil; err != nil && (!over || !isCanceled(err)) {
			e.fail(err)
		}
	})
}

// fail fails the test for what runs beside it.
func (e *Env) fail(err error) {
	err = fmt.Errorf("what runs beside the test: %w", err)
	e.tell(err)
	e.abandon(err)
}

// tell fails the test, and ends nobody: some TBs, as that of Ginkgo, panic when they have recorded a failure.
func (e *Env) tell(err error) {
	e.telling.Lock()
	defer e.telling.Unlock()
	defer func() { _ = recover() }()
	e.told.Errorf("%v", err)
}

// tellTo changes who is told. Nobody is told any more who was told before.
func (e *Env) tellTo(t testing.TB) {
	e.telling.Lock()
	defer e.telling.Unlock()
	e.told = t
}

// Create creates objects, in the namespace default if their kind wants one and they name none.
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

// place puts an object into the namespace default, if it needs one.
func (e *Env) place(obj client.Object) error {
	namespaced, err := e.client.IsObjectNamespaced(obj)
	if err == nil && namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace("default")
	}
	return err
}

// Get reads an object anew.
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

// Exists says whether an object is there.
func (e *Env) Exists(obj client.Object) bool {
	e.t.Helper()
	err := e.get(obj.DeepCopyObject().(client.Object))
	if err != nil && !apierrors.IsNotFound(err) {
		e.t.Fatalf("get %s: %v", e.describe(obj), err)
	}
	return err == nil
}

// Update changes an object as it is now: it is read, changed, and written, again as long as somebody else has written in between, for a minute
// at most.
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

// UpdateStatus is Update of the status.
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

// retry calls change until it returns something else than a conflict, or its time, that of a wait, is over.
func (e *Env) retry(change func() error) error {
	ctx, cancel := e.bounded(e.ctx)
	defer cancel()
	for {
		if err := client.RetryOnConflict(e.ctx, change); !apierrors.IsConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}

// Delete deletes objects. One that is not there is no error.
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

// isCanceled says whether an error is context.Canceled, and nothing else besides.
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

// describe names an object for messages.
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

// patience is how long the Env itself waits for the server. In a bubble it is no time at all.
const patience = 30 * time.Second
