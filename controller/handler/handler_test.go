package handler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// added is a queue that notes what is added, as namespace/name with what is special about it.
type added []string

func (a *added) Add(r handler.Request) { a.AddWithOpts(workqueue.AddOpts{}, r) }
func (a *added) AddAfter(r handler.Request, after time.Duration) {
	a.AddWithOpts(workqueue.AddOpts{After: after}, r)
}
func (a *added) AddRateLimited(r handler.Request) {
	a.AddWithOpts(workqueue.AddOpts{RateLimited: true}, r)
}
func (a *added) AddWithOpts(o workqueue.AddOpts, requests ...handler.Request) {
	for _, r := range requests {
		text := r.String()
		if o.Priority != 0 {
			text += fmt.Sprintf(" priority %d", o.Priority)
		}
		if o.After != 0 {
			text += fmt.Sprintf(" after %v", o.After)
		}
		if o.RateLimited {
			text += " limited"
		}
		*a = append(*a, text)
	}
}

// pod is one of owners: KIND/NAME, with * if it controls the pod.
func pod(name string, owners ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	for _, o := range owners {
		o, controls := strings.CutSuffix(o, "*")
		parts := strings.Split(o, "|")
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: parts[0], Kind: parts[1], Name: parts[2], Controller: &controls})
	}
	return p
}

// events are all events of a handler, from two states of an object.
func events(h handler.EventHandler, old, obj client.Object) map[string][]string {
	all := map[string][]string{}
	for name, call := range map[string]func(context.Context, handler.Queue){
		"create": func(ctx context.Context, q handler.Queue) { h.Create(ctx, handler.CreateEvent{Object: obj}, q) },
		"update": func(ctx context.Context, q handler.Queue) {
			h.Update(ctx, handler.UpdateEvent{ObjectOld: old, ObjectNew: obj}, q)
		},
		"delete":  func(ctx context.Context, q handler.Queue) { h.Delete(ctx, handler.DeleteEvent{Object: obj}, q) },
		"generic": func(ctx context.Context, q handler.Queue) { h.Generic(ctx, handler.GenericEvent{Object: obj}, q) },
	} {
		var a added
		call(context.Background(), &a)
		slices.Sort(a)
		all[name] = a
	}
	return all
}

func TestHandlers(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	ofReplicaSets := func(opts ...handler.OwnerOption) handler.EventHandler {
		return handler.EnqueueRequestForOwner(scheme.Scheme, mapper, &appsv1.ReplicaSet{}, opts...)
	}
	old := pod("a", "apps/v1|ReplicaSet|x*", "apps/v1|ReplicaSet|y", "apps/v1|Deployment|d", "v1|Node|n", "a/b/c|ReplicaSet|bad")
	obj := pod("a", "apps/v1|ReplicaSet|z*", "apps/v1|ReplicaSet|y", "extensions/v1|ReplicaSet|other")
	for _, tc := range []struct {
		name                            string
		handler                         handler.EventHandler
		create, update, delete, generic []string
	}{
		{name: "object", handler: handler.EnqueueRequestForObject{}, create: []string{"ns/a"}, update: []string{"ns/a"}, delete: []string{"ns/a"}, generic: []string{"ns/a"}},
		{name: "owners", handler: ofReplicaSets(), create: []string{"ns/y", "ns/z"}, update: []string{"ns/x", "ns/y", "ns/z"}, delete: []string{"ns/y", "ns/z"}, generic: []string{"ns/y", "ns/z"}},
		{name: "controller", handler: ofReplicaSets(handler.OnlyControllerOwner()), create: []string{"ns/z"}, update: []string{"ns/x", "ns/z"}, delete: []string{"ns/z"}, generic: []string{"ns/z"}},
		{name: "owners without a namespace", handler: handler.EnqueueRequestForOwner(scheme.Scheme, mapper, &corev1.Node{}), update: []string{"/n"}},
		{name: "owners of an unknown scope", handler: handler.EnqueueRequestForOwner(scheme.Scheme, unknown{mapper}, &corev1.Node{}), update: []string{"/n", "ns/n"}},
		{name: "map", handler: handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (all []handler.Request) {
			for _, ref := range o.GetOwnerReferences() {
				all = append(all, handler.Request{NamespacedName: types.NamespacedName{Name: ref.Kind}})
			}
			return all
		}), create: []string{"/ReplicaSet"}, update: []string{"/Deployment", "/Node", "/ReplicaSet"}, delete: []string{"/ReplicaSet"}, generic: []string{"/ReplicaSet"}},
		{name: "no functions", handler: handler.Funcs{}},
		{name: "functions", handler: handler.Funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) {
				q.AddAfter(handler.RequestFor(e.Object), time.Second)
			},
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
				q.AddRateLimited(handler.RequestFor(e.ObjectNew))
			},
			DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) { q.Add(handler.RequestFor(e.Object)) },
			GenericFunc: func(_ context.Context, e handler.GenericEvent, q handler.Queue) {
				q.AddWithOpts(workqueue.AddOpts{Priority: 7}, handler.RequestFor(e.Object))
			},
		}, create: []string{"ns/a after 1s"}, update: []string{"ns/a limited"}, delete: []string{"ns/a"}, generic: []string{"ns/a priority 7"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := events(tc.handler, old, obj)
			for event, want := range map[string][]string{"create": tc.create, "update": tc.update, "delete": tc.delete, "generic": tc.generic} {
				if !slices.Equal(got[event], want) {
					t.Errorf("%s adds %q, want %q", event, got[event], want)
				}
			}
		})
	}
}

// unknown knows no kind.
type unknown struct{ meta.RESTMapper }

func (unknown) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("the server is away")
}

// An owner may be named in a version that is no longer served: the kind determines whether it has a
// namespace.
func TestOwnerOfOldVersion(t *testing.T) {
	known := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion, corev1.SchemeGroupVersion})
	known.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	known.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper := &countingMapper{RESTMapper: known}
	for _, tc := range []struct {
		of    client.Object
		owner string
		want  string
	}{
		{&appsv1.ReplicaSet{}, "apps/v1beta2|ReplicaSet|x", "ns/x"},
		{&corev1.Node{}, "v0|Node|x", "/x"},
	} {
		var logged []string
		ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
		var got added
		handler.EnqueueRequestForOwner(scheme.Scheme, mapper, tc.of).Create(ctx, handler.CreateEvent{Object: pod("a", tc.owner)}, &got)
		if text := strings.Join(got, ", "); text != tc.want || len(logged) > 0 {
			t.Errorf("%s adds %s, want %s; logged %v", tc.owner, text, tc.want, logged)
		}
	}
	if mapper.missed > 0 {
		t.Errorf("%d lookups of unknown kinds, each of which may be a request, want none", mapper.missed)
	}
}

// countingMapper counts what is not known.
type countingMapper struct {
	meta.RESTMapper
	missed int
}

func (m *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err != nil {
		m.missed++
	}
	return mapping, err
}

// An event without an object adds nothing, and is logged.
func TestNoObject(t *testing.T) {
	for name, h := range map[string]handler.EventHandler{
		"object": handler.EnqueueRequestForObject{},
		"owner":  handler.EnqueueRequestForOwner(scheme.Scheme, unknown{}, &corev1.Node{}),
	} {
		for _, obj := range []client.Object{nil, (*corev1.Pod)(nil)} {
			for event, call := range map[string]func(context.Context, handler.Queue){
				"create":  func(ctx context.Context, q handler.Queue) { h.Create(ctx, handler.CreateEvent{Object: obj}, q) },
				"update":  func(ctx context.Context, q handler.Queue) { h.Update(ctx, handler.UpdateEvent{ObjectNew: obj}, q) },
				"delete":  func(ctx context.Context, q handler.Queue) { h.Delete(ctx, handler.DeleteEvent{Object: obj}, q) },
				"generic": func(ctx context.Context, q handler.Queue) { h.Generic(ctx, handler.GenericEvent{Object: obj}, q) },
			} {
				var got added
				logged := 0
				call(logr.NewContext(t.Context(), funcr.New(func(string, string) { logged++ }, funcr.Options{})), &got)
				if len(got) > 0 || logged == 0 {
					t.Errorf("%s, %s of %T: added %q, logged %d lines", name, event, obj, got, logged)
				}
			}
		}
	}
}

// Err of a handler for owners of a type without a kind in the scheme returns an error.
func TestUnknownOwner(t *testing.T) {
	type stranger struct{ corev1.Pod }
	h := handler.EnqueueRequestForOwner(scheme.Scheme, unknown{}, &stranger{})
	if h, ok := h.(interface{ Err() error }); !ok || h.Err() == nil {
		t.Error("Err returns nil for an unknown type of owner")
	}
	if got := events(h, pod("a"), pod("a", "v1|Pod|x")); len(got["create"]) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestPriorities(t *testing.T) {
	a, b := pod("a"), pod("a")
	a.ResourceVersion, b.ResourceVersion = "1", "2"
	r := handler.RequestFor(a)
	for _, tc := range []struct {
		name string
		of   func(handler.Queue) handler.Queue
		want string
	}{
		{"initial list", func(q handler.Queue) handler.Queue {
			return handler.QueueForCreate(q, handler.CreateEvent{Object: a, IsInInitialList: true})
		}, "ns/a priority -100, ns/a priority -100 after 1s, ns/a priority -100 limited, ns/a priority 3"},
		{"created", func(q handler.Queue) handler.Queue { return handler.QueueForCreate(q, handler.CreateEvent{Object: a}) },
			"ns/a, ns/a after 1s, ns/a limited, ns/a priority 3"},
		{"resync", func(q handler.Queue) handler.Queue {
			return handler.QueueForUpdate(q, handler.UpdateEvent{ObjectOld: a, ObjectNew: a})
		}, "ns/a priority -100, ns/a priority -100 after 1s, ns/a priority -100 limited, ns/a priority 3"},
		{"updated", func(q handler.Queue) handler.Queue {
			return handler.QueueForUpdate(q, handler.UpdateEvent{ObjectOld: a, ObjectNew: b})
		}, "ns/a, ns/a after 1s, ns/a limited, ns/a priority 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got added
			q := tc.of(&got)
			q.Add(r)
			q.AddAfter(r, time.Second)
			q.AddRateLimited(r)
			q.AddWithOpts(workqueue.AddOpts{Priority: 3}, r)
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("got %s", text)
			}
		})
	}
}
