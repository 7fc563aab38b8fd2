package endpointslice

import (
	"context"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"
	listers "k8s.io/client-go/listers/core/v1"
)

// The library writes by a clientset of client-go, of which it calls three methods, and reads nodes
// by a lister, of which it calls one. It passes no context: these types have that of the reconcile.

type clientset struct {
	kubernetes.Interface // nil: the library calls no other method

	ctx    context.Context
	client client.Client
}

func (c clientset) DiscoveryV1() discovery.DiscoveryV1Interface { return group{clientset: c} }

type group struct {
	discovery.DiscoveryV1Interface // nil

	clientset clientset
}

func (g group) EndpointSlices(namespace string) discovery.EndpointSliceInterface {
	return writer{ctx: g.clientset.ctx, client: g.clientset.client, namespace: namespace}
}

type writer struct {
	discovery.EndpointSliceInterface // nil

	ctx       context.Context
	client    client.Client
	namespace string
}

// Create returns a copy of s as the server has it. s has pointers into pods of the cache.
func (w writer) Create(_ context.Context, s *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	s = s.DeepCopy()
	return s, w.client.Create(w.ctx, s)
}

// Update returns a copy of s as the server has it. s has pointers into pods of the cache.
func (w writer) Update(_ context.Context, s *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	s = s.DeepCopy()
	return s, w.client.Update(w.ctx, s)
}

// Delete succeeds if the slice does not exist.
func (w writer) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	gone := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	return client.IgnoreNotFound(w.client.Delete(w.ctx, gone))
}

type nodes struct {
	listers.NodeLister // nil

	ctx    context.Context
	client client.Client
}

// Get returns a node, which belongs to the cache. A pod that is not bound has the name "", which no
// node has.
func (n nodes) Get(name string) (*corev1.Node, error) {
	if name == "" {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	var node corev1.Node
	if err := n.client.Get(n.ctx, client.ObjectKey{Name: name}, &node, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return &node, nil
}
