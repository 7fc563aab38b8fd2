package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

type mutating struct{ *Hooks }

// Handles implements admission.Plugin.
func (p mutating) Handles(r *resource.Request, _ resource.Operation) bool {
	return handles(&p.mutating, r)
}

// Mutate implements admission.Mutator. In a second pass only those are asked who want to be once more, and have seen
// another object before.
func (p mutating) Mutate(ctx context.Context, a *resource.Admitted) error {
	m := &mutation{question: question{Admitted: a, hooks: p.Hooks, kind: admits}, base: a.Object}
	set := p.mutating.load()
	if set.err != nil {
		return m.notReady()
	}
	m.recall()
	for i, h := range set.hooks {
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

// A mutation is an object on its way through the webhooks. Each sees it in a version of its own: it is converted when the
// next one wants another, and when all have seen it.
type mutation struct {
	question
	base   resource.Tree // the object in the version of the request, without what has been changed in shown
	shown  *shown        // as the last webhook saw it, with what it has changed; nil before the first
	dirty  bool          // something has
	passed *passed
}

// passed is what the second pass wants to know of the first.
type passed struct {
	object resource.Tree   // as it left the webhooks
	asked  map[string]bool // who wants to be asked once more if the object changes, and has been asked
	again  map[string]bool // those of them since whom the object has changed
}

type passedKey struct{}

// recall begins a pass: in the second one, others than webhooks may have changed the object since the first.
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

// changed has those asked again who have been asked so far.
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
		return nil, err
	}
	s, err := m.question.show(ctx, as, m.base)
	if err == nil {
		m.shown, m.Object = s, s.object
	}
	return s, err
}

// settle takes what webhooks have changed over into the version of the request.
func (m *mutation) settle(ctx context.Context) error {
	if m.dirty {
		m.base = m.shown.object
		if m.shown.Kind != m.Kind {
			r := m.Request
			translated, err := r.Definition.Translate(ctx, m.base, m.shown.Version, r.Version)
			if err != nil {
				return err
			}
			if m.base, err = r.Version.Model.Normalise(translated, nil); err != nil {
				return err
			}
		}
		m.dirty = false
	}
	m.Object = m.base
	return nil
}

// ask asks one webhook, and changes the object as it says. index is its place among all.
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
		changed, failed = m.apply(h, s, a)
	}
	m.hooks.metrics.observe(h, m.kind, m.Operation, time.Since(started), failed)
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

// apply changes the object as an answer says, and says whether that makes it another.
func (m *mutation) apply(h *hook, s *shown, a *answer) (changed bool, _ *failure) {
	if len(a.Patch) == 0 {
		return false, nil
	}
	patch, err := jsonpatch.DecodePatch(a.Patch)
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
	patched, err := m.patched(s, patch)
	if err != nil {
		return false, broken(err)
	}
	changed = !object.Equal(s.object, patched)
	s.object, s.objectJSON = patched, nil
	m.Object, m.dirty = patched, true
	return changed, nil
}

// patched is what a patch makes of an object, read as the body of a request would be.
func (m *mutation) patched(s *shown, patch jsonpatch.Patch) (resource.Tree, error) {
	data, err := resource.ApplyJSONPatch(patch, s.objectJSON)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := m.Request.StaysKind(s.Kind, m.Name, data); err != nil {
		return nil, err
	}
	model := m.Request.BodyModel()
	if s.Kind != m.Kind {
		model = s.Version.Model
	}
	obj, err := model.Decode(data, nil)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	obj["apiVersion"], obj["kind"] = s.Kind.GroupVersion().String(), s.Kind.Kind
	return obj, nil
}
