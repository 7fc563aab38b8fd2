package framework

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// A Factory makes the plugin of a profile. args are those of its pluginConfig, for DecodeArgs.
type Factory func(args runtime.RawExtension, h Handle) (Plugin, error)

// A Handle is what plugins have of the scheduler. Its methods are safe for concurrent use.
type Handle interface {
	// Client reads from the cache of the scheduler's manager, and writes to the server.
	Client() client.Client
	// EventRecorder records events in the name of the profile.
	EventRecorder() manager.EventRecorder
	// GetWaitingPod returns a pod that waits at Permit, nil if it does not.
	GetWaitingPod(uid types.UID) WaitingPod
	// IterateOverWaitingPods calls a function with each pod that waits at Permit.
	IterateOverWaitingPods(call func(WaitingPod))
	// Activate retries pods that were rejected, at once, whichever plugin has rejected them.
	Activate(pods ...*corev1.Pod)
}

// A WaitingPod is a pod that waits at Permit. Its methods are safe for concurrent use.
type WaitingPod interface {
	// GetPod returns the pod.
	GetPod() *corev1.Pod
	// GetPendingPlugins returns the names of the plugins that have not allowed the pod yet, sorted.
	GetPendingPlugins() []string
	// Allow ends the wait of a plugin. The pod is bound when all have ended.
	Allow(plugin string)
	// Reject rejects the pod in the name of a plugin. It reports whether the pod was still waiting.
	Reject(plugin, reason string) bool
}

// DecodeArgs decodes the arguments of a plugin into a struct, by its JSON tags. Names are case
// sensitive; unknown and duplicate fields are errors. Without arguments, the struct stays as it is,
// so its defaults can be set before.
func DecodeArgs(args runtime.RawExtension, into any) error {
	data := args.Raw
	if len(data) == 0 && args.Object != nil {
		var err error
		if data, err = json.Marshal(args.Object); err != nil {
			return fmt.Errorf("arguments: %w", err)
		}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}
