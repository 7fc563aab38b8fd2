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
	"github.com/kapok-dev/kapok/internal/tracing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A question is a request to the webhooks of one kind.
type question struct {
	*resource.Admitted
	hooks *Hooks
	kind  kind
}

// called tells the request how long webhooks have been called.
func (q *question) called(took time.Duration) {
	if q.Request.Hooked != nil {
		q.Request.Hooked(took)
	}
}

// notReady returns an error if the webhooks to call are not known.
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

// concerns reports whether a webhook matches the request, and the form in which it gets it. show
// returns that form for conditions.
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

// shown is a request in the form that some webhooks get.
type shown struct {
	match.As
	object, old         resource.Tree
	objectJSON, oldJSON []byte // nil before encode
}

// show returns a request whose object is in the version of the request in another form. The object
// must not be used afterwards.
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
		if s.object["kind"] != as.Kind.Kind { // a webhook has named another kind, which the object keeps if this one changes nothing
			s.object = maps.Clone(s.object)
		}
		s.object["apiVersion"], s.object["kind"] = as.Kind.GroupVersion().String(), as.Kind.Kind
	}
	if s.old != nil {
		s.old = maps.Clone(s.old)
		s.old["apiVersion"], s.old["kind"] = as.Kind.GroupVersion().String(), as.Kind.Kind
	}
	return s, nil
}

// encode encodes the objects.
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

// A failure is the reason why a webhook rejected a request.
type failure struct {
	kind  string // in metrics
	code  int    // in metrics
	err   error  // for the client
	cause error  // of a failed call
}

// isIgnored reports whether the request is admitted nevertheless.
func (f *failure) isIgnored(h *hook) bool { return f.kind == callFailed && h.ignored() }

// canceled reports whether the call ended because the request was cancelled.
func (f *failure) canceled() bool {
	return f.kind == callFailed && errors.Is(f.cause, context.Canceled)
}

// cannotCall returns the failure of a call without a valid response. status is its code in metrics.
func cannotCall(h *hook, status int, cause error) *failure {
	err := apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", h.Name, cause))
	return &failure{kind: callFailed, code: status, err: err, cause: cause}
}

// broken returns the failure for another error.
func broken(err error) *failure { return &failure{kind: serverFailed, err: err} }

// ask calls a webhook. A response that rejects the request is a failure too; its annotations and
// warnings count nevertheless.
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
		call.Timeout((time.Until(deadline) + time.Second - 1).Truncate(time.Second)) // the timeout in the URL
	}
	ctx, span := q.span(ctx, h, r)
	err = call.Do(ctx).Into(r.response)
	tracing.End(span, err)
	if err != nil {
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

// span starts the span of a call, with the name and the attributes that Kubernetes gives it.
func (q *question) span(ctx context.Context, h *hook, r *review) (context.Context, trace.Span) {
	name := "Call validating webhook"
	if q.kind == admits {
		name = "Call mutating webhook"
	}
	ctx, span := tracing.Start(ctx, name)
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("configuration", h.configuration),
			attribute.String("webhook", h.Name),
			attribute.String("resource", q.Request.Definition.GroupVersion(q.Request.Version).WithResource(q.Request.Definition.Plural).String()),
			attribute.String("subresource", q.Request.Subresource),
			attribute.String("operation", string(q.Operation)),
			attribute.String("UID", string(r.uid)),
		)
	}
	return ctx, span
}

// note adds the warnings and audit annotations of a response to the request.
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

// ignore records that a call failed and the failurePolicy is Ignore.
func (q *question) ignore(h *hook, f *failure, annotation string) {
	if f.canceled() {
		return
	}
	q.hooks.Logger.Warn("the call of an admission webhook failed and was ignored", "webhook", h.Name, "configuration", h.configuration, "error", f.cause)
	q.annotate("failed-open."+annotation, h.Name)
}

// errTooLate returns the error for a request whose deadline has passed.
func errTooLate() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
