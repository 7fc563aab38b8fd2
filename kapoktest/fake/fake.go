// Package fake creates clients for unit tests, with the constructor of controller-runtime's package
// of the same name:
//
//	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(foo).WithStatusSubresource(foo).Build()
//
// The client is a real client of a server in the test process. Reads and writes work as in a
// cluster, with resourceVersions, conflicts, defaults, validation, finalizers, watches and
// server-side apply. Garbage is not collected. Differences from a fake client without a server:
//
//   - The server sets uid, resourceVersion, generation and creationTimestamp. Those of initial
//     objects are dropped, and owner references between initial objects get the new uids.
//   - Initial objects must be valid. Missing namespaces of objects are created.
//   - An object of a namespaced kind must have a namespace.
//
// Custom kinds of the Scheme are served without a schema, so their objects are not validated. They
// have a status subresource if WithStatusSubresource names them. They are namespaced, unless the
// RESTMapper or an initial object without a namespace makes them cluster-scoped. For tests with the
// real definitions, use package kapoktest.
package fake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/client/interceptor"

	"k8s.io/apimachinery/pkg/api/meta"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// A ClientBuilder creates a client and its server. It is not safe for concurrent use.
type ClientBuilder struct {
	scheme  *k8sruntime.Scheme
	mapper  meta.RESTMapper // optional
	objects []k8sruntime.Object
	status  []client.Object
	indices []index
	funcs   *interceptor.Funcs
	test    testing.TB
	built   bool
}

// An index finds objects of a type by the values of a function.
type index struct {
	obj     k8sruntime.Object
	field   string
	extract client.IndexerFunc
}

// NewClientBuilder returns a builder of a client without objects.
func NewClientBuilder() *ClientBuilder { return &ClientBuilder{} }

// NewFakeClient returns a client of the built-in kinds with objects.
func NewFakeClient(objs ...k8sruntime.Object) client.WithWatch {
	return NewClientBuilder().WithRuntimeObjects(objs...).Build()
}

// WithScheme sets the Scheme. Default: the Scheme of k8s.io/client-go/kubernetes/scheme.
func (b *ClientBuilder) WithScheme(s *k8sruntime.Scheme) *ClientBuilder {
	b.scheme = s
	return b
}

// WithRESTMapper sets the scopes of custom kinds.
func (b *ClientBuilder) WithRESTMapper(m meta.RESTMapper) *ClientBuilder {
	b.mapper = m
	return b
}

// WithObjects adds initial objects. Build copies them.
func (b *ClientBuilder) WithObjects(objs ...client.Object) *ClientBuilder {
	for _, obj := range objs {
		b.objects = append(b.objects, obj)
	}
	return b
}

// WithLists adds the items of lists as initial objects.
func (b *ClientBuilder) WithLists(lists ...client.ObjectList) *ClientBuilder {
	for _, list := range lists {
		b.objects = append(b.objects, list)
	}
	return b
}

// WithRuntimeObjects adds initial objects, and the items of lists.
func (b *ClientBuilder) WithRuntimeObjects(objs ...k8sruntime.Object) *ClientBuilder {
	b.objects = append(b.objects, objs...)
	return b
}

// WithStatusSubresource adds the status subresource to custom kinds: updates of an object do not
// change its status, and updates of the status change nothing else.
func (b *ClientBuilder) WithStatusSubresource(objs ...client.Object) *ClientBuilder {
	b.status = append(b.status, objs...)
	return b
}

// WithIndex adds an index: client.MatchingFields then selects objects of the type of obj by the
// field, as with an index of a cache.
func (b *ClientBuilder) WithIndex(obj k8sruntime.Object, field string, extract client.IndexerFunc) *ClientBuilder {
	b.indices = append(b.indices, index{obj, field, extract})
	return b
}

// WithInterceptorFuncs sets functions that intercept the calls of the client, except for the
// creation of the initial objects.
func (b *ClientBuilder) WithInterceptorFuncs(funcs interceptor.Funcs) *ClientBuilder {
	b.funcs = &funcs
	return b
}

// WithReturnManagedFields has no effect: a server always returns managedFields.
func (b *ClientBuilder) WithReturnManagedFields() *ClientBuilder { return b }

// WithTest stops the server when the test ends, and makes Build end the test on an error. It is
// required in a bubble of testing/synctest. Default: the server stops after the client is garbage
// collected, and Build panics on an error.
func (b *ClientBuilder) WithTest(t testing.TB) *ClientBuilder {
	b.test = t
	return b
}

// Build starts the server and returns the client. It can be called once. If an object or an index
// is invalid, it panics, or ends the test of WithTest.
func (b *ClientBuilder) Build() client.WithWatch {
	c, err := b.build()
	if err != nil {
		err = fmt.Errorf("fake client: %w", err)
		if b.test == nil {
			panic(err)
		}
		b.test.Helper()
		b.test.Fatal(err)
	}
	if b.funcs != nil {
		return interceptor.NewClient(c, *b.funcs)
	}
	return c
}

func (b *ClientBuilder) build() (client.WithWatch, error) {
	if b.built {
		return nil, errors.New("Build can be called only once")
	}
	b.built = true
	if b.scheme == nil {
		b.scheme = clientscheme.Scheme
	}
	objects, err := b.all()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	server, err := kapok.Start(ctx, kapok.Options{KeepGarbage: true})
	if err != nil {
		return nil, err
	}
	if b.test != nil {
		b.test.Cleanup(func() { _ = server.Stop() })
	}
	c, err := b.fill(ctx, server, objects)
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	if b.test == nil {
		runtime.AddCleanup(c.use, func(s *kapok.Server) { _ = s.Stop() }, server)
	}
	return c, nil
}

// fill defines the kinds, and creates the objects.
func (b *ClientBuilder) fill(ctx context.Context, server *kapok.Server, objects []client.Object) (*fake, error) {
	if err := b.define(ctx, server, objects); err != nil {
		return nil, err
	}
	use := new(use)
	config := server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{next, use} })
	inner, err := client.NewWithWatch(config, client.Options{Scheme: b.scheme})
	if err != nil {
		return nil, err
	}
	c := &fake{WithWatch: inner, use: use, indices: map[schema.GroupVersionKind]map[string]client.IndexerFunc{}}
	for _, i := range b.indices {
		gvk, err := c.GroupVersionKindFor(i.obj)
		if err != nil {
			return nil, fmt.Errorf("index of %T: %w", i.obj, err)
		}
		if c.indices[gvk] == nil {
			c.indices[gvk] = map[string]client.IndexerFunc{}
		}
		if c.indices[gvk][i.field] != nil {
			return nil, fmt.Errorf("index of %T: field %q has two indices", i.obj, i.field)
		}
		c.indices[gvk][i.field] = i.extract
	}
	return c, c.createAll(ctx, objects)
}

// all returns copies of the initial objects, those of lists included.
func (b *ClientBuilder) all() (all []client.Object, err error) {
	add := func(obj k8sruntime.Object) error {
		o, ok := obj.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T has no metadata", obj)
		}
		all = append(all, o)
		return nil
	}
	for _, obj := range b.objects {
		if meta.IsListType(obj) {
			err = meta.EachListItem(obj, add)
		} else {
			err = add(obj)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// use is reachable while the client is, or a request of it is under way: a client may become
// unreachable during its last call. With a pointer in it, it does not share its block of memory.
type use struct{ _ *byte }

// roundTripper keeps a use reachable during requests.
type roundTripper struct {
	http.RoundTripper
	use *use
}

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	defer runtime.KeepAlive(r.use)
	return r.RoundTripper.RoundTrip(req)
}

// fake is a client that creates namespaces, and has indices.
type fake struct {
	client.WithWatch
	use     *use
	indices map[schema.GroupVersionKind]map[string]client.IndexerFunc

	mu         sync.Mutex
	namespaces map[string]bool // that are known to exist
}
