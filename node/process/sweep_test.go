//go:build linux || darwin

package process

import (
	"context"
	"syscall"
	"testing"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/node/internal/proc"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A listing is a client that lists no pods, and calls a function before it returns.
type listing struct {
	client.Client
	before func()
}

func (l listing) List(context.Context, client.ObjectList, ...client.ListOption) error {
	l.before()
	return nil
}

func newTestPods(t *testing.T, o Options) (*pods, *workqueue.Queue[handler.Request]) {
	t.Helper()
	o.Name, o.Dir, o.Tether = "machine", t.TempDir(), true
	o, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPods(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	queue := workqueue.New(workqueue.Options[handler.Request]{})
	t.Cleanup(queue.ShutDown)
	p.queue = queue
	return p, queue
}

// TestSweepKeepsNewPods reconciles a pod for the first time while the pods that do not exist are
// swept: what the sweep has listed does not have the pod.
func TestSweepKeepsNewPods(t *testing.T) {
	p, queue := newTestPods(t, Options{})
	id := proc.ID{Pod: "new", Container: "c"}
	p.client = listing{before: func() {
		p.keys["new"] = client.Key("default", "p")
		p.images.pulls[pullKey{"new", "c"}] = &pull{running: true}
		if _, err := p.runtime.Start(t.Context(), proc.Spec{ID: id, Path: "/bin/sleep", Args: []string{"sleep", "3600"}}); err != nil {
			t.Fatal(err)
		}
	}}
	if _, err := p.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.images.get("new", "c") == nil {
		t.Error("the preparation of the pod's program is forgotten")
	}
	p.wake("new")
	request, _ := queue.Get()
	if request.Name != "p" {
		t.Errorf("a change of the pod adds the request %s, want that of the pod", request)
	}
	queue.Done(request)
	if err := p.runtime.Terminate(id); err != nil {
		t.Error(err)
	}
	for ended := (proc.Run{}); ended.Exit == nil && !t.Failed(); {
		request, _ := queue.Get() // when the run has ended
		queue.Done(request)
		if ended = p.runtime.Runs("new")[0]; ended.Exit != nil && ended.Exit.Signal != int(syscall.SIGTERM) {
			t.Errorf("the container has ended by the signal %d, want only TERM", ended.Exit.Signal)
		}
	}
}

// A deleted is a client whose cache still has a pod that the server has deleted.
type deleted struct{ client.Client }

func (*deleted) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetName(key.Name)
	switch o := o.(type) {
	case *corev1.Pod:
		o.UID, o.Spec.NodeName, o.Spec.Containers = "gone", "machine", []corev1.Container{{Name: "c", Image: "none"}}
	case *corev1.Node:
		o.Annotations = map[string]string{NodeAnnotation: Process}
	}
	return nil
}

func (*deleted) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (*deleted) Status() client.SubResourceWriter { return absentStatus{} }

type absentStatus struct{ client.SubResourceWriter }

func (absentStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return apierrors.NewNotFound(corev1.Resource("pods"), "p")
}

// TestSweepFindsLateStarts sweeps a pod that has been deleted while a worker still reconciles it:
// another sweep follows, and forgets what the worker has begun.
func TestSweepFindsLateStarts(t *testing.T) {
	var p *pods
	p, queue := newTestPods(t, Options{Server: func(context.Context) string { // is called by Reconcile
		if _, err := p.sweep(t.Context()); err != nil {
			t.Error(err)
		}
		return ""
	}})
	p.client = &deleted{}
	if _, err := p.Reconcile(t.Context(), handler.Request{NamespacedName: client.Key("default", "p")}); err != nil {
		t.Fatal(err)
	}
	p.images.group.Wait()
	queue.ShutDown()
	for {
		request, end := queue.Get()
		if end {
			t.Fatal("no other sweep follows")
		}
		if request == sweeping {
			break
		}
	}
	if _, err := p.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if p.images.get("gone", "c") != nil || len(p.known()) > 0 {
		t.Errorf("known are %v and the program %v, want nothing", p.known(), p.images.get("gone", "c"))
	}
}
