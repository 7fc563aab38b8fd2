package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/object/jsonpatch"
	"github.com/kapok-dev/kapok/internal/resource"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

type mutating struct{ *Hooks }

// Handles implements admission.Plugin.
func (p mutating) Handles(r *resource.Request, _ resource.Operation) bool {
	return p.mutating.handles(r.Definition.GroupResource())
}

// Mutate implements admission.Mutator. A second pass calls only webhooks with the
// reinvocationPolicy IfNeeded, for which the object has changed since their call.
func (p mutating) Mutate(ctx context.Context, a *resource.Admitted) error {
	m := &mutation{question: question{Admitted: a, hooks: p.Hooks, kind: admits}, base: a.Object}
	all, err := p.mutating.of(a.Request.Definition.GroupResource())
	if err != nil {
		return m.notReady()
	}
	m.recall()
	for i, h := range all {
		as, ok, err := m.concerns(ctx, h, func(as match.As) (*shown, error) { return m.show(ctx, as) })
		if err != nil {
			return err
		}
		if !ok || a.Passes.Second && !m.passed.again[h.uid] {
			continue
		}
		s, err := m.show(ctx, as)
		if err != nil {
			return err
		}
		if err := m.ask(ctx, h, s, i); err != nil {
			return err
		}
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	m.remember()
	return nil
}

// A mutation is an object on its way through the webhooks. It is converted before the call of a
// webhook that needs another version, and after the last call.
type mutation struct {
	question
	base   resource.Tree // the object in the version of the request, without the changes in shown
	shown  *shown        // as the last webhook saw it, with its changes; nil before the first call
	dirty  bool          // shown has changes
	passed *passed
}

// passed is the state that the second pass needs of the first.
type passed struct {
	object resource.Tree   // at the end of the pass
	asked  map[string]bool // called webhooks with the reinvocationPolicy IfNeeded
	again  map[string]bool // those of asked to call again, because the object changed after their call
}

type passedKey struct{}

// recall starts a pass. In the second one, other plugins may have changed the object since the
// first.
func (m *mutation) recall() {
	if p, _ := m.Passes.Note(passedKey{}).(*passed); p != nil {
		m.passed = p
		if len(p.asked) > 0 && !object.Equal(p.object, m.Object) {
			m.changed()
		}
		return
	}
	m.passed = &passed{asked: map[string]bool{}, again: map[string]bool{}}
}

// changed marks the webhooks called so far to be called again.
func (m *mutation) changed() {
	for uid := range m.passed.asked {
		m.passed.again[uid] = true
	}
	clear(m.passed.asked)
}

func (m *mutation) remember() {
	if len(m.passed.asked) > 0 {
		m.passed.object = runtime.DeepCopyJSON(m.Object)
	}
	m.Passes.SetNote(passedKey{}, m.passed)
}

func (m *mutation) show(ctx context.Context, as match.As) (*shown, error) {
	if m.shown != nil && m.shown.Version == as.Version {
		return m.shown, nil
	}
	if err := m.settle(ctx); err != nil {
		return nil, apierrors.NewInternalError(apierrors.NewInternalError(err)) // as Kubernetes wraps it
	}
	s, err := m.question.show(ctx, as, m.base)
	if err == nil {
		m.shown, m.Object = s, s.object
	}
	return s, err
}

// settle converts the changes of webhooks to the version of the request.
func (m *mutation) settle(ctx context.Context) error {
	if m.dirty {
		var err error
		if m.base, err = m.Restore(ctx, m.shown.object); err != nil {
			return err
		}
		m.dirty = false
	}
	m.Object = m.base
	return nil
}

// ask calls one webhook, and applies its patch to the object. index is its position among all
// webhooks.
func (m *mutation) ask(ctx context.Context, h *hook, s *shown, index int) error {
	round := 0
	if m.Passes.Second {
		round = 1
	}
	annotation := fmt.Sprintf("mutation.webhook.admission.k8s.io/round_%d_index_%d", round, index)
	started := time.Now()
	a, failed := m.question.ask(ctx, h, s)
	m.note(h, a)
	changed := false
	if failed == nil {
		changed, failed = m.apply(ctx, h, s, a)
	}
	took := time.Since(started)
	m.called(took)
	m.hooks.metrics.observe(h, m.kind, m.Operation, took, failed)
	m.annotateMutation(annotation, h, changed)
	if changed {
		m.changed()
		m.Passes.Again = true
	}
	if h.ReinvocationPolicy != nil && *h.ReinvocationPolicy == registrationv1.IfNeededReinvocationPolicy {
		m.passed.asked[h.uid] = true
	}
	switch {
	case failed == nil:
		return nil
	case !failed.isIgnored(h):
		return failed.err
	}
	m.ignore(h, failed, annotation)
	if ctx.Err() != nil {
		return errTooLate()
	}
	return nil
}

func (m *mutation) annotateMutation(annotation string, h *hook, changed bool) {
	if m.Request.Annotate == nil {
		return
	}
	value, err := json.Marshal(struct {
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}{h.configuration, h.Name, changed})
	if err == nil {
		m.annotate(annotation, string(value))
	}
}

// apply applies the patch of a response to the object, and reports whether that changed it.
func (m *mutation) apply(ctx context.Context, h *hook, s *shown, a *answer) (changed bool, _ *failure) {
	if len(a.Patch) == 0 {
		return false, nil
	}
	patch, err := jsonpatch.Decode(a.Patch)
	switch {
	case err != nil:
		return false, cannotCall(h, 503, fmt.Errorf("received undecodable patch in webhook response: %w", err))
	case len(patch) == 0:
		return false, nil
	case s.object == nil:
		return false, broken(apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name)))
	case a.PatchType != admissionv1.PatchTypeJSONPatch:
		return false, cannotCall(h, int(refusal(h.Name, a.Result).ErrStatus.Code), fmt.Errorf("unsupported patch type %q", a.PatchType))
	}
	patched, err := m.patched(ctx, s, patch)
	if err != nil {
		return false, broken(apierrors.NewInternalError(err))
	}
	changed = !object.Equal(s.object, patched)
	if patched, err = m.Default(patched); err != nil {
		return false, broken(apierrors.NewInternalError(err))
	}
	s.object, s.objectJSON = patched, nil
	m.Object, m.dirty = patched, true
	return changed, nil
}

// patched returns the patched object.
func (m *mutation) patched(ctx context.Context, s *shown, patch jsonpatch.Patch) (resource.Tree, error) {
	data, err := resource.ApplyJSONPatch(ctx, patch, s.objectJSON, nil)
	if err != nil {
		return nil, err
	}
	return m.Decode(data, s.Kind, s.Version, nil)
}
