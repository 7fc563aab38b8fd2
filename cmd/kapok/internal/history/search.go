// Package history finds the states that an object had, as far as the server still has them: by
// history.kapok.dev, or with requests of Kubernetes' API alone, as a watch from an old
// resourceVersion replays each change since.
//
// Its functions may be called concurrently, and start no goroutine that outlives them.
package history

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/history"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// A Revision is one state of an object.
type Revision struct {
	Version string
	// Event is the change that led to it; "" for the oldest state, whose change is not known.
	Event watch.EventType
	// Object is the state; of a deletion, that before. It is nil if it is not known.
	Object   *unstructured.Unstructured
	Managers []string  // field managers of the change, by the managed fields that are new
	Time     time.Time // of the change, by the same; zero if they do not tell it
	Paths    []string  // fields that differ from the revision before, such as spec.replicas
	// Unreadable says why the server cannot read the object; "" if it can.
	Unreadable string
}

// patience bounds a watch, which ends by itself after the events that are looked for.
const patience = 30 * time.Second

// Of returns the revisions of an object, the oldest first; the last one is the object.
func Of(ctx context.Context, c dynamic.ResourceInterface, o *unstructured.Unstructured) ([]Revision, error) {
	h := &search{client: c, name: o.GetName()}
	last, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the server's resourceVersion %q is no number, so that older ones cannot be looked for", o.GetResourceVersion())
	}
	oldest, err := h.oldest(ctx, last)
	if err != nil {
		return nil, err
	}
	var all []Revision
	if oldest > 1 {
		before, err := h.at(ctx, oldest)
		if err != nil {
			return nil, err
		}
		if before != nil {
			all = append(all, Revision{Version: before.GetResourceVersion(), Object: before})
		}
	}
	if oldest < last {
		_, err := h.replay(ctx, oldest, func(e watch.EventType, now *unstructured.Unstructured) (more bool) {
			if len(all) == 0 || now.GetResourceVersion() != all[len(all)-1].Version {
				all = append(all, revision(all, e, now))
			}
			version, _ := strconv.ParseUint(now.GetResourceVersion(), 10, 64)
			return version < last
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		all = []Revision{{Version: o.GetResourceVersion(), Object: o}}
	}
	return all, nil
}

type search struct {
	client dynamic.ResourceInterface
	name   string
}

// oldest returns the oldest version from which the server replays changes up to the version last,
// which is last itself if there is none.
func (h *search) oldest(ctx context.Context, last uint64) (uint64, error) {
	first := func(watch.EventType, *unstructured.Unstructured) bool { return false }
	if last > 1 {
		if found, err := h.replay(ctx, 1, first); err != nil || found {
			return 1, err
		}
	}
	gone, kept := uint64(1), last
	for kept-gone > 1 {
		middle := gone + (kept-gone)/2
		found, err := h.replay(ctx, middle, first)
		if err != nil {
			return 0, err
		}
		if found {
			kept = middle
		} else {
			gone = middle
		}
	}
	return kept, nil
}

// replay calls each for the changes of the object after a version, until it returns false. found is
// false if the server no longer has them.
func (h *search) replay(ctx context.Context, version uint64, each func(watch.EventType, *unstructured.Unstructured) bool) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := h.client.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + h.name, ResourceVersion: strconv.FormatUint(version, 10)})
	if expired(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			if err := apierrors.FromObject(e.Object); !expired(err) {
				return false, err
			}
			return false, nil
		}
		if o, ok := e.Object.(*unstructured.Unstructured); ok && !each(e.Type, o) {
			return true, nil
		}
	}
	return false, fmt.Errorf("the watch from resourceVersion %d ended before the object's own version", version)
}

func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// at returns the object as of a version, nil if it did not exist or the server does not have it any
// more.
func (h *search) at(ctx context.Context, version uint64) (*unstructured.Unstructured, error) {
	list, err := h.client.List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + h.name, ResourceVersion: strconv.FormatUint(version, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if expired(err) || err == nil && len(list.Items) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &list.Items[0], nil
}

// revision describes the change from the last revision to an object.
func revision(before []Revision, event watch.EventType, o *unstructured.Unstructured) Revision {
	r := Revision{Version: o.GetResourceVersion(), Event: event, Object: o}
	var old *unstructured.Unstructured
	if n := len(before); n > 0 && before[n-1].Event != watch.Deleted {
		old = before[n-1].Object
	}
	if event == watch.Deleted {
		return r
	}
	var known []metav1.ManagedFieldsEntry
	if old != nil {
		known = old.GetManagedFields()
		r.Paths = history.Changed(old.Object, o.Object)
	}
	r.Managers, r.Time = history.Managers(known, o.GetManagedFields())
	return r
}

// Restored returns what to write over an object to give it an old state: its own identity and
// status, and all else of the old state.
func Restored(now, old *unstructured.Unstructured) *unstructured.Unstructured {
	o := old.DeepCopy()
	o.SetResourceVersion(now.GetResourceVersion())
	o.SetUID(now.GetUID())
	o.SetManagedFields(nil)
	o.SetGeneration(now.GetGeneration())
	o.SetCreationTimestamp(now.GetCreationTimestamp())
	o.SetDeletionTimestamp(now.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(now.GetDeletionGracePeriodSeconds())
	delete(o.Object, "status")
	if status, found := now.Object["status"]; found {
		o.Object["status"] = status
	}
	return o
}

// Renewed returns what to create to have a deleted object again: all of an old state but its
// identity and status.
func Renewed(old *unstructured.Unstructured) *unstructured.Unstructured {
	o := old.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	delete(o.Object, "status")
	return o
}
