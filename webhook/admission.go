package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// A Request is one operation to admit: the operation, the user, and the object before and after, as
// JSON.
type Request struct {
	admissionv1.AdmissionRequest
}

// A Response is the answer to a Request. Allowed, Denied, Errored, Patched and PatchResponseFromRaw
// return one.
type Response struct {
	// Patches change the object. Patch and PatchType are set from them; to set these directly, leave
	// Patches empty.
	Patches []JSONPatchOp
	admissionv1.AdmissionResponse
}

// Complete fills in the wire form of a Response: the UID of the request, the code (default 200),
// and the patches as bytes.
func (r *Response) Complete(req Request) error {
	r.UID = req.UID
	if r.Result == nil {
		r.Result = &metav1.Status{}
	}
	if r.Result.Code == 0 {
		r.Result.Code = http.StatusOK
	}
	if len(r.Patches) == 0 {
		return nil
	}
	var err error
	if r.Patch, err = json.Marshal(r.Patches); err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	r.PatchType = new(admissionv1.PatchTypeJSONPatch)
	return nil
}

// WithWarnings adds warnings, which the API server returns to its client.
func (r Response) WithWarnings(warnings ...string) Response {
	r.Warnings = append(r.Warnings, warnings...)
	return r
}

// A Handler admits or denies requests. Its context ends when the API server stops waiting for the
// answer. It must be safe for concurrent use.
type Handler interface {
	Handle(context.Context, Request) Response
}

// A HandlerFunc is a function as a Handler.
type HandlerFunc func(context.Context, Request) Response

// Handle calls the function.
func (f HandlerFunc) Handle(ctx context.Context, req Request) Response { return f(ctx, req) }

// A Webhook serves AdmissionReviews over HTTP with a Handler. Register it with a Server, or see
// StandaloneWebhook.
type Webhook struct {
	// Handler decides.
	Handler Handler
	// RecoverPanic has a panic of the Handler be an answer with code 500. Default true; else it
	// goes on to net/http, which closes the connection.
	RecoverPanic *bool
	// WithContextFunc adds values of the HTTP request to the context. Optional.
	WithContextFunc func(context.Context, *http.Request) context.Context
	// LogConstructor creates the logger in the context of the Handler. The request is nil if it has
	// not been decoded yet. Default: DefaultLogConstructor.
	LogConstructor func(base logr.Logger, req *Request) logr.Logger

	log logr.Logger // without a sink: that of the context
}

// Names of controller-runtime's package webhook.
type (
	Admission         = Webhook
	AdmissionHandler  = Handler
	AdmissionRequest  = Request
	AdmissionResponse = Response
	AdmissionDecoder  = Decoder
)

// WithRecoverPanic sets RecoverPanic.
func (wh *Webhook) WithRecoverPanic(recoverPanic bool) *Webhook {
	wh.RecoverPanic = &recoverPanic
	return wh
}

// Handle calls the Handler and completes its response.
func (wh *Webhook) Handle(ctx context.Context, req Request) (resp Response) {
	log := wh.logger(ctx, &req)
	ctx = logr.NewContext(ctx, log)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		metricsFrom(ctx).panicked()
		if wh.RecoverPanic != nil && !*wh.RecoverPanic {
			panic(p)
		}
		err := fmt.Errorf("panic: %v [recovered]", p)
		log.Error(err, "the webhook panicked", "stack", string(debug.Stack()))
		resp = errored(req, err)
	}()

	resp = wh.Handler.Handle(ctx, req)
	if err := resp.Complete(req); err != nil {
		log.Error(err, "unable to encode the response")
		return errored(req, err)
	}
	return resp
}

// errored returns a completed response with code 500.
func errored(req Request, err error) Response {
	resp := Errored(http.StatusInternalServerError, err)
	resp.UID = req.UID
	return resp
}

func (wh *Webhook) logger(ctx context.Context, req *Request) logr.Logger {
	base := wh.log
	if base.GetSink() == nil {
		base = loggerFrom(ctx)
	}
	if wh.LogConstructor != nil {
		return wh.LogConstructor(base, req)
	}
	return DefaultLogConstructor(base, req)
}

// loggerFrom returns the logger of a context, or slog's default.
func loggerFrom(ctx context.Context) logr.Logger {
	if log, err := logr.FromContext(ctx); err == nil {
		return log
	}
	return logr.FromSlogHandler(slog.Default().Handler())
}

// DefaultLogConstructor adds the object and the user of a request to a logger.
func DefaultLogConstructor(base logr.Logger, req *Request) logr.Logger {
	if req == nil {
		return base
	}
	return base.WithValues("object", klog.KRef(req.Namespace, req.Name),
		"namespace", req.Namespace, "name", req.Name,
		"resource", req.Resource, "user", req.UserInfo.Username,
		"requestID", req.UID,
	)
}

type requestKey struct{}

// RequestFromContext returns the request that a Defaulter or a Validator is called for. It returns
// an error outside of such a call.
func RequestFromContext(ctx context.Context) (Request, error) {
	if req, ok := ctx.Value(requestKey{}).(Request); ok {
		return req, nil
	}
	return Request{}, errors.New("no admission request in the context")
}

// NewContextWithRequest returns a context from which RequestFromContext returns req.
func NewContextWithRequest(ctx context.Context, req Request) context.Context {
	return context.WithValue(ctx, requestKey{}, req)
}

// StandaloneOptions configure a webhook without a Server.
type StandaloneOptions struct {
	// Logger is the base of its loggers. Default: that of the context, else slog's.
	Logger logr.Logger
	// MetricsPath is the value of the label "webhook" in Metrics. Without both nothing is measured.
	MetricsPath string
	Metrics     *Metrics
}

// StandaloneWebhook returns a handler for a server or mux of the caller, which is responsible for
// TLS.
func StandaloneWebhook(hook *Webhook, opts StandaloneOptions) (http.Handler, error) {
	if hook == nil || hook.Handler == nil {
		return nil, errors.New("a webhook needs a handler")
	}
	if opts.Logger.GetSink() != nil {
		hook.log = opts.Logger
	}
	if opts.MetricsPath == "" || opts.Metrics == nil {
		return hook, nil
	}
	return opts.Metrics.Instrument(opts.MetricsPath, hook), nil
}
