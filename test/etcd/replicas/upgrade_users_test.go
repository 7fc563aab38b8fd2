//go:build unix

package replicas

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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Users are clients of two servers that write objects through one and read them through the other,
// while servers are replaced. They try again only after errors of a connection, and while a server
// stops.
type users struct {
	t        *testing.T
	clients  [2]dynamic.Interface
	informed []map[schema.GroupVersionResource]cache.GenericLister // by server

	stop    chan struct{} // closed when workers are to end
	working sync.WaitGroup

	requests, retries, unknown atomic.Int64

	mu   sync.Mutex
	kept map[schema.GroupVersionResource]map[string]string // states of objects by name; guarded by mu

	counted atomic.Int64 // acknowledged increments of the shared lease
}

// Resources that users write. Objects have what their kind requires, and a state in an annotation.
var (
	configs  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	events   = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	leases   = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	customs  = schema.GroupVersionResource{Group: "test.example.org", Version: "v1", Resource: "useds"}
	required = map[schema.GroupVersionResource]map[string]any{
		configs: {"apiVersion": "v1", "kind": "ConfigMap"},
		events:  {"apiVersion": "v1", "kind": "Event", "involvedObject": map[string]any{"namespace": "default"}},
		leases:  {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
		customs: {"apiVersion": "test.example.org/v1", "kind": "Useds"},
	}
)

// object returns a new object of a resource.
func object(r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	o := (&unstructured.Unstructured{Object: required[r]}).DeepCopy()
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

const (
	// pace is the time between two rounds of a worker: the test is not about load.
	pace = 20 * time.Millisecond
	// patience is the time for which a request is tried again.
	patience = time.Minute
)

func newUsers(t *testing.T, servers []*process) *users {
	t.Helper()
	u := &users{t: t, stop: make(chan struct{}), kept: map[schema.GroupVersionResource]map[string]string{}}
	servers[0].establish(t, customs.Resource, patience)
	for i, s := range servers {
		client, err := dynamic.NewForConfig(s.config)
		if err != nil {
			t.Fatal(err)
		}
		u.clients[i] = client
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "default", nil)
		listers := map[schema.GroupVersionResource]cache.GenericLister{}
		for r := range required {
			listers[r] = factory.ForResource(r).Lister()
			u.kept[r] = map[string]string{}
		}
		factory.Start(t.Context().Done())
		t.Cleanup(factory.Shutdown)
		u.informed = append(u.informed, listers)
	}
	return u
}

// begin starts two workers for each kind, one of which writes through the first server, and the
// other through the second. Two more count together.
func (u *users) begin() {
	if _, err := u.of(0, leases).Create(u.t.Context(), object(leases, "counter"), metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(u.working.Wait) // the test may end before end
	for i := range u.clients {
		for r := range required {
			u.working.Go(func() { u.work(u.t.Context(), i, r) })
		}
		u.working.Go(func() { u.count(u.t.Context(), i) })
	}
}

// end waits until the workers have ended their rounds.
func (u *users) end() {
	close(u.stop)
	u.working.Wait()
}

// of returns a client of a resource at a server.
func (u *users) of(server int, r schema.GroupVersionResource) dynamic.ResourceInterface {
	return u.clients[server].Resource(r).Namespace("default")
}

// rest waits until the next round. It returns false if there is none.
func (u *users) rest(ctx context.Context) bool {
	select {
	case <-u.stop:
	case <-ctx.Done():
	case <-time.After(pace):
		return true
	}
	return false
}

// try sends a request until it succeeds, or fails by an error that no client would try again. done
// reports whether an error of another try means that the one before has succeeded; nil for requests
// that can be repeated.
func (u *users) try(ctx context.Context, what string, request func() error, done func(error) bool) {
	u.requests.Add(1)
	begin := time.Now()
	for again := false; ; again = true {
		err := request()
		switch {
		case err == nil, ctx.Err() != nil, again && done != nil && done(err):
			return
		case !passing(err) || time.Since(begin) > patience:
			u.t.Errorf("%s: %v", what, err)
			return
		}
		u.retries.Add(1)
		<-time.After(10 * time.Millisecond)
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

// work creates, changes and deletes objects of a resource, and reads what it has written through
// the other server. It keeps each fifth object.
func (u *users) work(ctx context.Context, server int, r schema.GroupVersionResource) {
	near, far := u.of(server, r), u.of(1-server, r)
	for n := 0; u.rest(ctx); n++ {
		name := fmt.Sprintf("through-%d-%d", server, n)
		what := func(verb string) string { return fmt.Sprintf("%s %s %s", verb, r.Resource, name) }
		o := object(r, name)
		o.SetAnnotations(map[string]string{"state": "created"})
		u.try(ctx, what("create"), func() error {
			_, err := near.Create(ctx, o, metav1.CreateOptions{})
			return err
		}, apierrors.IsAlreadyExists)
		if o = u.read(ctx, what("get"), far, name, "created"); o == nil {
			return // reported by try
		}
		o.SetAnnotations(map[string]string{"state": "updated"})
		u.try(ctx, what("update"), func() error {
			_, err := far.Update(ctx, o, metav1.UpdateOptions{})
			return err
		}, apierrors.IsConflict)
		u.read(ctx, what("get"), near, name, "updated")
		u.try(ctx, what("patch"), func() error {
			_, err := near.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"state":"patched"}}}`), metav1.PatchOptions{})
			return err
		}, nil)
		u.read(ctx, what("get"), far, name, "patched")
		if n%5 == 0 {
			u.mu.Lock()
			u.kept[r][name] = "patched"
			u.mu.Unlock()
			continue
		}
		u.try(ctx, what("delete"), func() error { return far.Delete(ctx, name, metav1.DeleteOptions{}) }, apierrors.IsNotFound)
		u.try(ctx, what("get the deleted"), func() error {
			_, err := near.Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				return apierrors.NewInternalError(errors.New("it still exists"))
			case apierrors.IsNotFound(err):
				return nil
			}
			return err
		}, nil)
	}
}

// read returns an object, and requires the state that was written last.
func (u *users) read(ctx context.Context, what string, c dynamic.ResourceInterface, name, want string) (o *unstructured.Unstructured) {
	u.try(ctx, what, func() (err error) {
		o, err = c.Get(ctx, name, metav1.GetOptions{})
		if err == nil && o.GetAnnotations()["state"] != want {
			err = apierrors.NewInternalError(fmt.Errorf("state %q, want %q", o.GetAnnotations()["state"], want))
		}
		return err
	}, nil)
	return o
}

// count increments a number in a lease, which it reads through one server and writes through the
// other.
func (u *users) count(ctx context.Context, server int) {
	near, far := u.of(server, leases), u.of(1-server, leases)
	for u.rest(ctx) {
		u.try(ctx, "count", func() error {
			lease, err := near.Get(ctx, "counter", metav1.GetOptions{})
			if err != nil {
				return err
			}
			n, _, err := unstructured.NestedInt64(lease.Object, "spec", "leaseTransitions")
			if err != nil {
				return err
			}
			if err := unstructured.SetNestedField(lease.Object, n+1, "spec", "leaseTransitions"); err != nil {
				return err
			}
			_, err = far.Update(ctx, lease, metav1.UpdateOptions{})
			switch {
			case err == nil:
				u.counted.Add(1)
			case apierrors.IsConflict(err):
				return nil // the other one was faster
			case passing(err):
				u.unknown.Add(1)
			}
			return err
		}, nil)
	}
}

// verify compares both servers, and informers of both, with what was written. The workers have
// ended.
func (u *users) verify() {
	for i := range u.clients {
		for r := range required {
			stored := map[string]string{}
			for _, o := range u.list(i, r) {
				if state := o.GetAnnotations()["state"]; state != "" {
					stored[o.GetName()] = state
				}
			}
			if !maps.Equal(stored, u.kept[r]) {
				u.t.Errorf("server %d has %d %s, want %d:\n%v\nwant\n%v", i, len(stored), r.Resource, len(u.kept[r]), stored, u.kept[r])
			}
			eventually(u.t, patience, fmt.Sprintf("an informer of %s at server %d has what a list has", r.Resource, i), func() bool {
				listed := map[string]string{}
				for _, o := range u.list(i, r) {
					listed[o.GetName()] = o.GetResourceVersion()
				}
				return maps.Equal(u.versions(i, r), listed)
			})
		}
		lease, err := u.of(i, leases).Get(u.t.Context(), "counter", metav1.GetOptions{})
		if err != nil {
			u.t.Fatal(err)
		}
		n, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseTransitions")
		if least := u.counted.Load(); n < least || n > least+u.unknown.Load() {
			u.t.Errorf("server %d has counted %d, want %d and at most %d more", i, n, least, u.unknown.Load())
		}
	}
}

func (u *users) list(server int, r schema.GroupVersionResource) []unstructured.Unstructured {
	list, err := u.of(server, r).List(u.t.Context(), metav1.ListOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	return list.Items
}

// versions returns the resourceVersions of the objects of an informer.
func (u *users) versions(server int, r schema.GroupVersionResource) map[string]string {
	all, err := u.informed[server][r].List(labels.Everything())
	if err != nil {
		u.t.Fatal(err)
	}
	versions := map[string]string{}
	for _, o := range all {
		o := o.(*unstructured.Unstructured)
		versions[o.GetName()] = o.GetResourceVersion()
	}
	return versions
}

func (u *users) String() string {
	kept := 0
	for _, all := range u.kept {
		kept += len(all)
	}
	return fmt.Sprintf("%d requests, %d tries again, %d objects kept, counted to %d", u.requests.Load(), u.retries.Load(), kept, u.counted.Load())
}
