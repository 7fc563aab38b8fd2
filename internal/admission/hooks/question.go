package hooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A question is a request that the webhooks of one kind are asked about.
type question struct {
	*resource.Admitted
	hooks *Hooks
	kind  kind
}

// notReady refuses a request because it is not known who is to be asked about it.
func (q *question) notReady() error {
	name := q.Name
	if metadata, _ := q.Object["metadata"].(map[string]any); name == "" {
		for _, key := range []string{"name", "generateName"} {
			if name == "" {
				name, _ = metadata[key].(string)
			}
		}
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(q.Request.GroupResource(), name, errors.New("not yet ready to handle request"))
}

// concerns says whether a webhook is to be asked, and as what the request is shown to it. show shows it to conditions.
func (q *question) concerns(ctx context.Context, h *hook, show func(match.As) (*shown, error)) (match.As, bool, error) {
	as, ok, err := h.criteria.Match(q.hooks.State, q.Admitted)
	if err != nil || !ok || h.conditions == nil {
		return as, ok, err
	}
	s, err := show(as)
	if err != nil {
		return as, false, err
	}
	meets, err := q.meets(ctx, h, s)
	if err != nil {
		return as, false, apierrors.NewForbidden(q.Request.GroupResource(), q.Name, err)
	}
	if !meets {
		q.hooks.metrics.excluded(h, q.kind, q.Operation)
	}
	return as, meets, nil
}

// shown is a request as it is shown to some webhooks.
type shown struct {
	match.As
	object, old         resource.Tree
	objectJSON, oldJSON []byte // once somebody has asked for it
}

// show shows a request whose object is in the version of the request. The object may be used up.
func (q *question) show(ctx context.Context, as match.As, obj resource.Tree) (*shown, error) {
	s := &shown{As: as, object: obj, old: q.Old}
	if as.Kind != q.Kind {
		var err error
		if s.object, err = q.Request.Definition.Translate(ctx, obj, q.Request.Version, as.Version); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if s.old, err = q.Request.Definition.Translate(ctx, q.Old, q.Request.Version, as.Version); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	if s.object != nil {
		s.object["apiVersion"], s.object["kind"] = as.Kind.GroupVersion().String(), as.Kind.Kind
	}
	if s.old != nil {
		s.old = maps.Clone(s.old)
		s.old["apiVersion"], s.old["kind"] = as.Kind.GroupVersion().String(), as.Kind.Kind
	}
	return s, nil
}

// encode makes the JSON of what is shown.
func (s *shown) encode() (err error) {
	if s.object != nil && s.objectJSON == nil {
		if s.objectJSON, err = object.AppendJSON(nil, s.object); err != nil {
			return err
		}
	}
	if s.old != nil && s.oldJSON == nil {
		s.oldJSON, err = object.AppendJSON(nil, s.old)
	}
	return err
}

// A failure is why a webhook has not let a request pass.
type failure struct {
	kind  string // as metrics name it
	code  int    // likewise
	err   error  // what the client is told
	cause error  // of a call that failed
}

// isIgnored says whether the request passes all the same.
func (f *failure) isIgnored(h *hook) bool { return f.kind == callFailed && h.ignored() }

// canceled says that the call was given up because nobody waits for the request any more.
func (f *failure) canceled() bool {
	return f.kind == callFailed && errors.Is(f.cause, context.Canceled)
}

// cannotCall says that a webhook could not be asked, or has not answered as it must. status is how metrics count it.
func cannotCall(h *hook, status int, cause error) *failure {
	err := apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", h.Name, cause))
	return &failure{kind: callFailed, code: status, err: err, cause: cause}
}

// broken says that something else went wrong.
func broken(err error) *failure { return &failure{kind: serverFailed, err: err} }

// ask asks a webhook. An answer that refuses the request is a failure, too; what else is in it counts all the same.
func (q *question) ask(ctx context.Context, h *hook, s *shown) (*answer, *failure) {
	if q.Request.DryRun {
		dry, err := h.runsDry()
		if err != nil {
			return nil, cannotCall(h, 400, err)
		}
		if !dry {
			return nil, broken(apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.Name)))
		}
	}
	r, err := q.review(h, s)
	if err != nil {
		return nil, cannotCall(h, 400, fmt.Errorf("could not create admission objects: %w", err))
	}
	client, err := q.hooks.Caller.Client(h.target, codecs())
	if err != nil {
		return nil, cannotCall(h, 500, fmt.Errorf("could not get REST client: %w", err))
	}
	if h.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.timeout)
		defer cancel()
	}
	call := client.Post().SetHeader("Content-Type", "application/json").Body(r.request)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) > 0 {
		call.Timeout((time.Until(deadline) + time.Second - 1).Truncate(time.Second)) // which the webhook is told
	}
	if err := call.Do(ctx).Into(r.response); err != nil {
		code := 503
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			code = int(status.Status().Code)
		}
		return nil, cannotCall(h, code, fmt.Errorf("failed to call webhook: %w", err))
	}
	a, err := r.answer(q.kind == admits)
	if err != nil {
		return nil, cannotCall(h, 503, fmt.Errorf("received invalid webhook response: %w", err))
	}
	if !a.Allowed {
		refused := refusal(h.Name, a.Result)
		return a, &failure{kind: noError, code: int(refused.ErrStatus.Code), err: refused}
	}
	return a, nil
}

// note tells the client, and the audit, what a webhook has to say besides its verdict.
func (q *question) note(h *hook, a *answer) {
	if a == nil {
		return
	}
	for key, value := range a.AuditAnnotations {
		q.annotate(h.Name+"/"+key, value)
	}
	for _, w := range a.Warnings {
		q.Request.Warn(w)
	}
}

func (q *question) annotate(key, value string) {
	if q.Request.Annotate != nil {
		q.Request.Annotate(key, value)
	}
}

// ignore notes that a webhook which could not be asked was ignored.
func (q *question) ignore(h *hook, f *failure, annotation string) {
	if f.canceled() {
		return
	}
	q.hooks.Logger.Warn("an admission webhook could not be asked and was ignored", "webhook", h.Name, "configuration", h.configuration, "error", f.cause)
	q.annotate("failed-open."+annotation, h.Name)
}

// errTooLate is the answer to a request whose time is up.
func errTooLate() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
