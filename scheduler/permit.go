package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/scheduler/framework"
	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
)

// A rejection is the error of a pod that a plugin has rejected although there is a node for it.
type rejection struct {
	message string
	plugins []string // whose events end it; empty is a backoff
}

func (r *rejection) Error() string { return r.message }

// rejectedBy returns the rejection of a node by Reserve or Permit.
func rejectedBy(plugin string, reasons []string) *rejection {
	no := &place.Refusal{Plugin: plugin, Reasons: reasons}
	return &rejection{no.Message(), []string{plugin}}
}

// failed reports why a pod has not got the node that was chosen for it, and retries it: after
// events that end a rejection, or after its backoff.
func (s *scheduler) failed(ctx context.Context, n *pending, err error) {
	reason, refused := corev1.PodReasonSchedulerError, []string(nil)
	var no *rejection
	if errors.As(err, &no) {
		reason, refused = corev1.PodReasonUnschedulable, no.plugins
	}
	s.report(ctx, n, reason, err.Error())
	s.queue.fail(n, refused, time.Now())
}

// commit gives a pod its node: it calls Reserve and Permit, and then binds the pod. Like bind, it
// is called after the pod counts on the node.
func (a *attempt) commit(n *pending, node string, claims *claimed) {
	waiting, err := a.reserveAndPermit(node)
	if err != nil {
		a.unreserveOwn(node)
		if claims != nil {
			a.cluster.Release(claims.choices)
		}
		delete(a.assumed, a.pod.UID)
		a.cluster.RemovePod(a.pod.UID)
		a.failed(a.ctx, n, err)
		return
	}
	if waiting == nil {
		a.write(a.ctx, func() { a.finish(n, node, claims) })
		return
	}
	a.writers.Go(func() {
		if err := a.waiting.wait(a.ctx, waiting); err != nil {
			a.unreserveOwn(node)
			a.inbox.put(func() { a.unbind(a.ctx, n, claims, err) })
			return
		}
		a.write(a.ctx, func() { a.finish(n, node, claims) })
	})
}

// reserveAndPermit calls Reserve and Permit. It returns the pod as one that waits if a plugin
// delays its binding.
func (a *attempt) reserveAndPermit(node string) (*waitingPod, error) {
	for _, p := range a.plugins.Reserve {
		st := a.call(p, "Reserve", func() *framework.Status { return p.Reserve(a.ctx, a.state, a.pod, node) })
		switch {
		case st.IsRejected():
			return nil, rejectedBy(p.Name(), st.Reasons())
		case !st.IsSuccess():
			return nil, fmt.Errorf("running Reserve plugin %q: %w", p.Name(), st.AsError())
		}
	}
	limits := map[string]time.Duration{}
	for _, p := range a.plugins.Permit {
		var limit time.Duration
		st := a.call(p, "Permit", func() (st *framework.Status) {
			st, limit = p.Permit(a.ctx, a.state, a.pod, node)
			return st
		})
		switch {
		case st.Code() == framework.Wait:
			limits[p.Name()] = min(limit, maxPermit)
		case st.IsRejected():
			return nil, rejectedBy(p.Name(), st.Reasons())
		case !st.IsSuccess():
			return nil, fmt.Errorf("running Permit plugin %q: %w", p.Name(), st.AsError())
		}
	}
	if len(limits) == 0 {
		return nil, nil
	}
	return a.waiting.add(a.pod, limits), nil
}

// unreserveOwn calls Unreserve.
func (a *attempt) unreserveOwn(node string) {
	for i := len(a.plugins.Reserve) - 1; i >= 0; i-- {
		p := a.plugins.Reserve[i]
		a.call(p, "Unreserve", func() *framework.Status {
			p.Unreserve(a.ctx, a.state, a.pod, node)
			return nil
		})
	}
}

// finish does the work before the binding, binds the pod, and calls PostBind.
func (a *attempt) finish(n *pending, node string, claims *claimed) {
	err := a.preBind(node, claims)
	if err == nil {
		err = a.bindPod(node)
		if err == nil {
			a.events[a.pod.Spec.SchedulerName].Eventf(a.pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", a.pod.Namespace, a.pod.Name, node)
		} else if a.isBound(a.ctx, a.pod) {
			err = nil // the response was lost
		}
	}
	if err != nil {
		if claims != nil {
			a.unreserve(a.ctx, a.pod, claims)
		}
		a.unreserveOwn(node)
		a.inbox.put(func() { a.unbind(a.ctx, n, claims, err) })
		return
	}
	a.unslotted(func() error {
		for _, p := range a.plugins.PostBind {
			a.call(p, "PostBind", func() *framework.Status {
				p.PostBind(a.ctx, a.state, a.pod, node)
				return nil
			})
		}
		return nil
	})
}

// unslotted calls a function that may take long. Other pods may be bound in between.
func (s *scheduler) unslotted(do func() error) error {
	<-s.bindings
	defer func() { s.bindings <- struct{}{} }()
	return do()
}

// preBind calls PreBind, after the claims of devices were written.
func (a *attempt) preBind(node string, claims *claimed) error {
	if claims != nil {
		if err := a.reserve(a.ctx, a.pod, node, claims); err != nil {
			return fmt.Errorf("running PreBind plugin %q: %w", ofDevices, err)
		}
	}
	if len(a.plugins.PreBind) == 0 {
		return nil
	}
	return a.unslotted(func() error {
		for _, p := range a.plugins.PreBind {
			st := a.call(p, "PreBind", func() *framework.Status { return p.PreBind(a.ctx, a.state, a.pod, node) })
			switch {
			case st.IsRejected():
				return &rejection{message: st.Message()}
			case !st.IsSuccess():
				return fmt.Errorf("running PreBind plugin %q: %w", p.Name(), st.AsError())
			}
		}
		return nil
	})
}

// bindPod binds the pod by an extender, or by the first plugin that does not skip it.
func (a *attempt) bindPod(node string) error {
	for _, e := range a.extenders {
		if !e.Binds() {
			continue
		}
		err := a.unslotted(func() error { return e.Bind(a.ctx, a.pod, node) })
		if err == nil || !e.Ignorable() {
			return err
		}
		a.log.Info("Skipping an extender that has failed and is ignorable", "extender", e.Name(), "error", err.Error())
	}
	if len(a.plugins.All) == 0 {
		return a.createBinding(a.ctx, a.pod, node)
	}
	for _, p := range a.plugins.Bind {
		if p == nil {
			return a.createBinding(a.ctx, a.pod, node)
		}
		var st *framework.Status
		_ = a.unslotted(func() error {
			st = a.call(p, "Bind", func() *framework.Status { return p.Bind(a.ctx, a.state, a.pod, node) })
			return nil
		})
		switch {
		case st.IsSuccess():
			return nil
		case st.Code() == framework.Skip:
		case st.IsRejected():
			return &rejection{message: st.Message()}
		default:
			return fmt.Errorf("running Bind plugin %q: %w", p.Name(), st.AsError())
		}
	}
	return errors.New("no Bind plugin has bound the pod")
}
