package simulated

import (
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"

	"k8s.io/apimachinery/pkg/types"
)

// A ref names an object in the namespace of the pods that refer to it.
type ref struct {
	kind      string
	namespace string
	name      string
}

// waiting holds the pods that wait for objects, so that a change of an object takes time only for
// the pods that wait for it.
type waiting struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*waiter
	on   map[ref]map[types.NamespacedName]bool
}

// A waiter is a pod that waits.
type waiter struct {
	refs []ref
	told string // its standing events that have been sent
}

func newWaiting() *waiting {
	return &waiting{pods: map[types.NamespacedName]*waiter{}, on: map[ref]map[types.NamespacedName]bool{}}
}

// set replaces the objects for which a pod waits. The pod is known from then on, also if that is
// none, until forget.
func (w *waiting) set(pod types.NamespacedName, refs []ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[pod]
	if known == nil {
		known = &waiter{}
		w.pods[pod] = known
	}
	w.leaveLocked(pod, known)
	known.refs = refs
	for _, r := range refs {
		if w.on[r] == nil {
			w.on[r] = map[types.NamespacedName]bool{}
		}
		w.on[r][pod] = true
	}
}

func (w *waiting) leaveLocked(pod types.NamespacedName, known *waiter) {
	for _, r := range known.refs {
		if delete(w.on[r], pod); len(w.on[r]) == 0 {
			delete(w.on, r)
		}
	}
}

// forget removes a pod that waits no longer.
func (w *waiting) forget(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.pods[pod]; known != nil {
		w.leaveLocked(pod, known)
		delete(w.pods, pod)
	}
}

// tell notes the standing events of a pod, and reports whether they are others than before.
func (w *waiting) tell(pod types.NamespacedName, events []event) bool {
	var text strings.Builder
	for _, e := range events {
		if e.standing {
			text.WriteString(e.reason + " " + e.message + "\n")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.pods[pod]
	if known == nil {
		if text.Len() == 0 {
			return false
		}
		known = &waiter{}
		w.pods[pod] = known
	}
	changed := known.told != text.String()
	known.told = text.String()
	return changed
}

// wake adds requests for the pods that wait for an object.
func (w *waiting) wake(kind string, o client.Object, q handler.Queue) {
	w.mu.Lock()
	var pods []types.NamespacedName
	for pod := range w.on[ref{kind, o.GetNamespace(), o.GetName()}] {
		pods = append(pods, pod)
	}
	w.mu.Unlock()
	slices.SortFunc(pods, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, pod := range pods {
		q.Add(handler.Request{NamespacedName: pod})
	}
}
