//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	workers = 4
	// pace is the time between two rounds of a worker: the test is not about load.
	pace = 50 * time.Millisecond
	// patience is the time for which a request is tried again.
	patience = 20 * time.Second
)

// users are clients that write objects and read them again.
type users struct {
	t      *testing.T
	config *rest.Config
	kubernetes.Interface

	stop    chan struct{} // closed when workers are to end
	working sync.WaitGroup

	requests, retries atomic.Int64

	mu      sync.Mutex
	longest time.Duration     // until a request has succeeded; guarded by mu
	kept    map[string]string // the config maps that are not deleted, and what is in them; guarded by mu
	secrets map[string]string // the same of secrets; guarded by mu
}

func newUsers(t *testing.T, address string, f *files) *users {
	t.Helper()
	u := &users{t: t, stop: make(chan struct{}), kept: map[string]string{}, secrets: map[string]string{}, config: &rest.Config{
		Host: address, BearerTokenFile: f.path("token"), TLSClientConfig: rest.TLSClientConfig{CAFile: f.path("ca.crt")}, QPS: -1,
	}}
	var err error
	if u.Interface, err = kubernetes.NewForConfig(u.config); err != nil {
		t.Fatal(err)
	}
	return u
}

// try sends a request until it succeeds, or fails by an error that no client would try again. done
// reports whether an error of another try means that the one before has succeeded; nil for requests
// that can be repeated.
func (u *users) try(ctx context.Context, what string, request func(context.Context) error, done func(error) bool) {
	u.requests.Add(1)
	begun := time.Now()
	for again := false; ; again = true {
		err := request(ctx)
		switch {
		case err == nil:
			u.took(time.Since(begun))
			return
		case ctx.Err() != nil || again && done != nil && done(err):
			return
		case !passing(err) || time.Since(begun) > patience:
			u.t.Errorf("%s: %v", what, err)
			return
		}
		u.retries.Add(1)
		pause(ctx.Done(), 10*time.Millisecond)
	}
}

func (u *users) took(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.longest = max(u.longest, d)
}

func pause(ended <-chan struct{}, d time.Duration) {
	select {
	case <-ended:
	case <-time.After(d):
	}
}

// passing reports whether an error is one of the connection, or of a server that is about to stop.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
}

// begin starts the workers.
func (u *users) begin() {
	for i := range workers {
		u.working.Go(func() { u.work(u.t.Context(), i) })
	}
}

// end waits until the workers have ended their rounds.
func (u *users) end() {
	close(u.stop)
	u.working.Wait()
}

func (u *users) stopped() bool {
	select {
	case <-u.stop:
		return true
	default:
		return false
	}
}

// work creates, reads, changes and deletes objects, one after the other.
func (u *users) work(ctx context.Context, worker int) {
	maps, secrets := u.CoreV1().ConfigMaps("default"), u.CoreV1().Secrets("default")
	for i := 0; !u.stopped() && ctx.Err() == nil; i++ {
		name := fmt.Sprintf("soak-%d-%d", worker, i)
		u.round(ctx, maps, name, i%20 == 0)
		if i%10 == 0 {
			u.try(ctx, "create a secret", func(ctx context.Context) error {
				_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"name": name}}, metav1.CreateOptions{})
				return err
			}, apierrors.IsAlreadyExists)
			u.keep(u.secrets, name, name)
		}
		pause(u.stop, pace)
	}
}

// keep notes an object that is not deleted.
func (u *users) keep(in map[string]string, name, content string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	in[name] = content
}

func (u *users) round(ctx context.Context, c typed.ConfigMapInterface, name string, keep bool) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"state": "created"}}
	u.try(ctx, "create", func(ctx context.Context) error {
		_, err := c.Create(ctx, object, metav1.CreateOptions{})
		return err
	}, apierrors.IsAlreadyExists)
	u.read(ctx, c, name, "created")
	u.try(ctx, "update", func(ctx context.Context) error {
		object.Data["state"] = "updated"
		_, err := c.Update(ctx, object, metav1.UpdateOptions{})
		return err
	}, nil)
	u.read(ctx, c, name, "updated")
	u.try(ctx, "patch", func(ctx context.Context) error {
		_, err := c.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"state":"patched"}}`), metav1.PatchOptions{})
		return err
	}, nil)
	if keep {
		u.keep(u.kept, name, "patched")
		return
	}
	u.try(ctx, "delete", func(ctx context.Context) error { return c.Delete(ctx, name, metav1.DeleteOptions{}) }, apierrors.IsNotFound)
	u.try(ctx, "get what is deleted", func(ctx context.Context) error {
		_, err := c.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			return apierrors.NewInternalError(errors.New("it is still there"))
		}
		return err
	}, nil)
}

// read reads an object, and compares it with what was written.
func (u *users) read(ctx context.Context, c typed.ConfigMapInterface, name, want string) {
	u.try(ctx, "get", func(ctx context.Context) error {
		o, err := c.Get(ctx, name, metav1.GetOptions{})
		if err == nil && o.Data["state"] != want {
			u.t.Errorf("%s is %q, want %q", name, o.Data["state"], want)
		}
		return err
	}, nil)
}

// check tries the newest token, and one that is not valid any more.
func (u *users) check(f *files) {
	for generation, want := range map[int]int{f.generation: http.StatusOK, f.generation - tokensKept: http.StatusUnauthorized} {
		config := rest.CopyConfig(u.config)
		config.BearerTokenFile, config.BearerToken = "", token(generation)
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			u.t.Fatal(err)
		}
		// Files are read one after the other.
		code := 0
		for end := time.Now().Add(patience); code != want && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			c.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces").Do(context.Background()).StatusCode(&code)
		}
		if code != want {
			u.t.Errorf("a token of generation %d of %d: %d, want %d", generation, f.generation, code, want)
		}
	}
}

// inform starts an informer of config maps, and returns its content.
func (u *users) inform() (content func() map[string]string) {
	factory := informers.NewSharedInformerFactoryWithOptions(u, 0, informers.WithNamespace("default"))
	lister := factory.Core().V1().ConfigMaps().Lister()
	factory.StartWithContext(u.t.Context())
	u.t.Cleanup(factory.Shutdown)
	return func() map[string]string {
		all, err := lister.List(labels.Everything())
		if err != nil {
			u.t.Fatal(err)
		}
		return states(all)
	}
}

func states(all []*corev1.ConfigMap) map[string]string {
	m := map[string]string{}
	for _, o := range all {
		m[o.Name] = o.Data["state"]
	}
	return m
}

// verify compares the server and an informer with what was written. The workers have ended.
func (u *users) verify(informed func() map[string]string) {
	list, err := u.CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	var all []*corev1.ConfigMap
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	there := states(all)
	if !maps.Equal(there, u.kept) {
		u.t.Errorf("the server has %d objects: %v, want %d: %v", len(there), there, len(u.kept), u.kept)
	}
	secrets, err := u.CoreV1().Secrets("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	stored := map[string]string{}
	for _, o := range secrets.Items {
		stored[o.Name] = string(o.Data["name"])
	}
	if !maps.Equal(stored, u.secrets) {
		u.t.Errorf("the server has %d secrets: %v, want %d: %v", len(stored), stored, len(u.secrets), u.secrets)
	}
	for end := time.Now().Add(patience); !maps.Equal(informed(), there); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			u.t.Errorf("an informer has %d objects: %v, the server %d", len(informed()), informed(), len(there))
			return
		}
	}
}

func (u *users) String() string {
	return fmt.Sprintf("%d requests, %d tries again, %d config maps and %d secrets kept; the longest request took %v", u.requests.Load(), u.retries.Load(), len(u.kept), len(u.secrets), u.longest)
}
