package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/internal/webhook"

	"github.com/tidwall/btree"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A hook is one compiled webhook of a configuration. It is immutable.
type hook struct {
	configuration string
	uid           string // unique, even among webhooks of the same name
	criteria      *match.Criteria
	conditions    *conditions // nil without conditions
	target        *webhook.Hook
	timeout       time.Duration // 0 for the default
	*admissionv1.MutatingWebhook
}

// ignored reports whether the webhook's failurePolicy is Ignore.
func (h *hook) ignored() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionv1.Ignore
}

// runsDry reports whether the webhook may be called for a dry run. The error is Kubernetes' for an
// absent value.
func (h *hook) runsDry() (bool, error) {
	if h.SideEffects == nil {
		//lint:ignore ST1005 Kubernetes' words
		return false, errors.New("Webhook SideEffects is nil")
	}
	return *h.SideEffects == admissionv1.SideEffectClassNone || *h.SideEffects == admissionv1.SideEffectClassNoneOnDryRun, nil
}

// A source has the webhooks of all configurations of a kind.
type source struct {
	*state.Derived[*set]                         // of the configurations in the state
	files                atomic.Pointer[[]*hook] // those of configurations in files
	forReviews           bool                    // Options.CallForReviews
}

func newSource(o Options, plural string) *source {
	s := &source{Derived: state.Derive(o.State, fold, schema.GroupResource{Group: group, Resource: plural}), forReviews: o.CallForReviews}
	s.files.Store(&[]*hook{})
	return s
}

// use puts configurations from files in effect, in place of those before.
func (s *source) use(configurations []resource.Tree) error {
	var all []*hook
	for _, c := range configurations {
		raw, err := json.Marshal(c)
		if err != nil {
			return err
		}
		hooks, _, err := read(raw, *s.files.Load())
		if err != nil {
			return err
		}
		all = append(all, hooks...)
	}
	s.files.Store(&all)
	return nil
}

// handles reports whether any webhook may match a request for a resource.
func (s *source) handles(gr schema.GroupResource) bool {
	return (s.forReviews || !reviews[gr]) && (len(*s.files.Load()) > 0 || !configurations[gr] && !s.Load().empty())
}

// of returns the webhooks for a resource in the order in which they are called: those from files
// first. The error says why they are not known.
func (s *source) of(gr schema.GroupResource) ([]*hook, error) {
	all := *s.files.Load()
	if configurations[gr] {
		return all, nil
	}
	set := s.Load()
	return slices.AppendSeq(slices.Clip(all), set.all()), set.err
}

// A set has the webhooks at one revision. It is immutable once fold has returned it; its trees
// share unchanged parts with the set before.
type set struct {
	configurations btree.Map[string, []*hook] // by name, without configurations that have no webhooks
	unreadable     btree.Map[string, error]   // by the name of the configuration
	err            error                      // why the webhooks are not known

	read, compiled int // number of configurations and webhooks that fold read and compiled for this set
}

func (s *set) empty() bool { return s.configurations.Len() == 0 && s.err == nil }

// all yields the webhooks in the order in which they are called.
func (s *set) all() iter.Seq[*hook] {
	return func(yield func(*hook) bool) {
		s.configurations.Scan(func(_ string, hooks []*hook) bool {
			for _, h := range hooks {
				if !yield(h) {
					return false
				}
			}
			return true
		})
	}
}

// fold reads the configurations that changed, and compiles their webhooks that changed.
func fold(last *set, c *state.Changes) *set {
	next := &set{}
	if last != nil {
		next.configurations, next.unreadable = *last.configurations.Copy(), *last.unreadable.Copy()
	}
	for key, o := range c.Objects() {
		known, _ := next.configurations.Get(key.Name)
		next.configurations.Delete(key.Name)
		next.unreadable.Delete(key.Name)
		if o == nil {
			continue
		}
		hooks, compiled, err := read(o.Raw, known)
		if err != nil {
			next.unreadable.Set(key.Name, fmt.Errorf("read %s: %w", o.Key, err))
		} else if len(hooks) > 0 {
			next.configurations.Set(key.Name, hooks)
		}
		next.read++
		next.compiled += compiled
	}
	next.err = errors.Join(append([]error{c.Err}, next.unreadable.Values()...)...)
	return next
}

// read returns the webhooks of a configuration, reusing unchanged ones of known, and the number
// that it compiled. It decodes all configurations as mutating ones, which have all fields of the
// validating ones and one more.
func read(raw []byte, known []*hook) (hooks []*hook, compiled int, err error) {
	var config admissionv1.MutatingWebhookConfiguration
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, 0, err
	}
	byUID := make(map[string]*hook, len(known))
	for _, h := range known {
		byUID[h.uid] = h
	}
	hooks = make([]*hook, len(config.Webhooks))
	seen := map[string]int{}
	for i := range config.Webhooks {
		w := &config.Webhooks[i]
		uid := fmt.Sprintf("%s/%s/%d", config.Name, w.Name, seen[w.Name])
		seen[w.Name]++
		if h := byUID[uid]; h != nil && reflect.DeepEqual(h.MutatingWebhook, w) {
			hooks[i] = h
		} else {
			hooks[i] = compile(config.Name, uid, w)
			compiled++
		}
	}
	return hooks, compiled, nil
}

func compile(configuration, uid string, w *admissionv1.MutatingWebhook) *hook {
	h := &hook{
		configuration:   configuration,
		uid:             uid,
		criteria:        match.OfWebhook(w.Rules, w.MatchPolicy, w.NamespaceSelector, w.ObjectSelector),
		conditions:      newConditions(w.MatchConditions),
		target:          webhook.NewHook(targetOf(w)),
		MutatingWebhook: w,
	}
	if w.TimeoutSeconds != nil {
		h.timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	return h
}

func targetOf(w *admissionv1.MutatingWebhook) webhook.Config {
	c := webhook.Config{
		Name:     w.Name,
		CABundle: w.ClientConfig.CABundle,
		// A call without side effects may be repeated.
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
