package hooks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type validating struct{ *Hooks }

// Handles implements admission.Plugin.
func (p validating) Handles(r *resource.Request, _ resource.Operation) bool {
	return p.validating.handles(r.Definition.GroupResource())
}

// A verdict is the outcome of one call.
type verdict struct {
	hook    *hook
	shown   *shown
	answer  *answer
	failure *failure
}

// Validate implements admission.Validator. If several webhooks reject the request, the error is
// that of the first one in their order.
func (p validating) Validate(ctx context.Context, a *resource.Admitted) error {
	q := &question{Admitted: a, hooks: p.Hooks, kind: validates}
	verdicts, err := q.validators(ctx)
	if err != nil || len(verdicts) == 0 {
		return err
	}
	if ctx.Err() != nil {
		return errTooLate()
	}
	started := time.Now()
	var others sync.WaitGroup
	for i := range verdicts[1:] {
		others.Go(func() { q.judge(ctx, &verdicts[1+i]) })
	}
	q.judge(ctx, &verdicts[0])
	others.Wait()
	q.called(time.Since(started))

	var first error
	for i, v := range verdicts {
		q.note(v.hook, v.answer)
		switch {
		case v.failure == nil:
		case v.failure.isIgnored(v.hook):
			q.ignore(v.hook, v.failure, fmt.Sprintf("validating.webhook.admission.k8s.io/round_0_index_%d", i))
		case first == nil:
			first = v.failure.err
		}
	}
	return first
}

// validators returns the webhooks to call.
func (q *question) validators(ctx context.Context) ([]verdict, error) {
	hooks, err := q.hooks.validating.of(q.Request.Definition.GroupResource())
	if err != nil {
		return nil, q.notReady()
	}
	views := map[*resource.Version]*shown{}
	show := func(as match.As) (*shown, error) {
		if s := views[as.Version]; s != nil {
			return s, nil
		}
		s, err := q.show(ctx, as, q.Object)
		if err == nil {
			views[as.Version] = s
		}
		return s, err
	}
	var all []verdict
	for _, h := range hooks {
		as, ok, err := q.concerns(ctx, h, show)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		s, err := show(as)
		if err != nil {
			return nil, err
		}
		if err := s.encode(); err != nil { // before they share it
			return nil, apierrors.NewInternalError(err)
		}
		all = append(all, verdict{hook: h, shown: s})
	}
	return all, nil
}

// judge calls one webhook. It runs concurrently with others.
func (q *question) judge(ctx context.Context, v *verdict) {
	started := time.Now()
	defer func() {
		if p := recover(); p != nil {
			v.failure = broken(apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v", v.hook.Name, p)))
		}
		q.hooks.metrics.observe(v.hook, q.kind, q.Operation, time.Since(started), v.failure)
	}()
	v.answer, v.failure = q.ask(ctx, v.hook, v.shown)
}
