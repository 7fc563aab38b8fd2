package scheduler

import (
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/scheduler/framework"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A handle implements framework.Handle for the plugins of a profile.
type handle struct {
	scheduler *scheduler
	events    manager.EventRecorder
}

// Client implements framework.Handle.
func (h *handle) Client() client.Client { return h.scheduler.client }

// EventRecorder implements framework.Handle.
func (h *handle) EventRecorder() manager.EventRecorder { return h.events }

// GetWaitingPod implements framework.Handle.
func (h *handle) GetWaitingPod(uid types.UID) framework.WaitingPod {
	if p := h.scheduler.waiting.get(uid); p != nil {
		return p
	}
	return nil
}

// IterateOverWaitingPods implements framework.Handle.
func (h *handle) IterateOverWaitingPods(call func(framework.WaitingPod)) {
	for _, p := range h.scheduler.waiting.all() {
		call(p)
	}
}

// Activate implements framework.Handle.
func (h *handle) Activate(pods ...*corev1.Pod) {
	s := h.scheduler
	s.inbox.put(func() {
		for _, p := range pods {
			if n := s.queue.pods[p.UID]; n != nil {
				s.queue.activate(n)
			}
		}
	})
}
