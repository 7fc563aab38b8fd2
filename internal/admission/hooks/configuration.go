package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A hook is one webhook of a configuration, ready to be asked. It is immutable.
type hook struct {
	configuration string
	uid           string // tells it from all others, also from those of the same name
	criteria      *match.Criteria
	conditions    *conditions // nil for none
	target        *webhook.Hook
	timeout       time.Duration // 0 for none of its own
	*admissionv1.MutatingWebhook
}

// ignored says that the webhook is to be ignored when it cannot be asked.
func (h *hook) ignored() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionv1.Ignore
}

// runsDry says that to ask the webhook about a dry run has no effect elsewhere; the error is what Kubernetes says if it
// is not known.
func (h *hook) runsDry() (bool, error) {
	if h.SideEffects == nil {
		//lint:ignore ST1005 Kubernetes' words
		return false, errors.New("Webhook SideEffects is nil")
	}
	return *h.SideEffects == admissionv1.SideEffectClassNone || *h.SideEffects == admissionv1.SideEffectClassNoneOnDryRun, nil
}

// A source is the webhooks of all configurations of a kind.
type source struct {
	state     *state.State
	resource  schema.GroupResource
	mark      *state.Mark
	current   atomic.Pointer[set]
	compiling sync.Mutex
}

func newSource(st *state.State, plural string) source {
	resource := schema.GroupResource{Group: group, Resource: plural}
	return source{state: st, resource: resource, mark: st.Mark(resource)}
}

// A set is the webhooks at one time, in the order in which they are asked.
type set struct {
	mark  uint64
	hooks []*hook
	err   error // why it is not known who is to be asked
	by    map[object.Revision][]*hook
}

func (s *set) empty() bool { return len(s.hooks) == 0 && s.err == nil }

// load returns the webhooks of now.
func (s *source) load() *set {
	if known := s.current.Load(); known != nil && known.mark == s.mark.Load() {
		return known
	}
	s.compiling.Lock()
	defer s.compiling.Unlock()
	known, mark := s.current.Load(), s.mark.Load()
	if known != nil && known.mark == mark {
		return known
	}
	now := s.compile(known, mark)
	s.current.Store(now)
	return now
}

// compile reads the configurations; those that it has read before, it knows by their revision.
func (s *source) compile(before *set, mark uint64) *set {
	now := &set{mark: mark, by: map[object.Revision][]*hook{}, err: s.state.AllReadable(s.resource)}
	for o := range s.state.Snapshot(s.resource).All("") { // which is in the order of names
		var hooks []*hook
		known := false
		if before != nil {
			hooks, known = before.by[o.Revision]
		}
		if !known {
			var err error
			if hooks, err = read(o); err != nil {
				now.err = errors.Join(now.err, err)
				continue // and it is read again next time
			}
		}
		now.by[o.Revision] = hooks
		now.hooks = append(now.hooks, hooks...)
	}
	return now
}

// read compiles a configuration. Webhooks that validate have all the fields of those that mutate, but for one.
func read(o *object.Object) ([]*hook, error) {
	var config admissionv1.MutatingWebhookConfiguration
	if err := json.Unmarshal(o.Raw, &config); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	hooks := make([]*hook, len(config.Webhooks))
	seen := map[string]int{}
	for i := range config.Webhooks {
		w := &config.Webhooks[i]
		hooks[i] = &hook{
			configuration:   config.Name,
			uid:             fmt.Sprintf("%s/%s/%d", config.Name, w.Name, seen[w.Name]),
			criteria:        match.OfWebhook(w.Rules, w.MatchPolicy, w.NamespaceSelector, w.ObjectSelector),
			conditions:      newConditions(w.MatchConditions),
			target:          webhook.NewHook(targetOf(w)),
			MutatingWebhook: w,
		}
		if w.TimeoutSeconds != nil {
			hooks[i].timeout = time.Duration(*w.TimeoutSeconds) * time.Second
		}
		seen[w.Name]++
	}
	return hooks, nil
}

func targetOf(w *admissionv1.MutatingWebhook) webhook.Config {
	c := webhook.Config{
		Name:     w.Name,
		CABundle: w.ClientConfig.CABundle,
		// To ask twice is nothing to who has no side effects.
		Repeatable: w.SideEffects != nil && *w.SideEffects == admissionv1.SideEffectClassNone,
	}
	if url := w.ClientConfig.URL; url != nil {
		c.URL = *url
	}
	if s := w.ClientConfig.Service; s != nil {
		c.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Port != nil {
			c.Service.Port = *s.Port
		}
		if s.Path != nil {
			c.Service.Path = *s.Path
		}
	}
	return c
}
