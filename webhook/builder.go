package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// ConvertPath is the path of conversion webhooks.
const ConvertPath = "/convert"

// A Manager is the part of a manager.Manager that a WebhookBuilder uses. S is the type of its
// webhook server, and is inferred.
type Manager[S Registrar] interface {
	// GetScheme returns the Go types that webhooks decode.
	GetScheme() *runtime.Scheme
	// GetLogger returns the logger of the webhooks.
	GetLogger() logr.Logger
	// GetWebhookServer returns the server of the webhooks.
	GetWebhookServer() S
}

// A Registrar is the part of a Server that a WebhookBuilder uses.
type Registrar interface {
	// Register serves a handler at a path.
	Register(path string, hook http.Handler)
	// WebhookMux returns the mux of the registered handlers.
	WebhookMux() *http.ServeMux
}

// A WebhookBuilder registers the webhooks of a kind with the webhook server of a manager. It is not
// safe for concurrent use.
type WebhookBuilder[T runtime.Object] struct {
	scheme *runtime.Scheme
	log    logr.Logger
	server Registrar
	obj    T
	gvk    schema.GroupVersionKind

	defaulting, validating       func() *Webhook
	defaulters, validators       int
	defaulterPath, validatorPath string
	converter                    func(*runtime.Scheme) (Converter, error)
	recoverPanic                 *bool
	logConstructor               func(logr.Logger, *Request) logr.Logger
	withContext                  func(context.Context, *http.Request) context.Context
}

// NewWebhookManagedBy returns a builder of webhooks for the kind of obj, which is a pointer to a Go
// type in the scheme of the manager:
//
//	err := webhook.NewWebhookManagedBy(mgr, &batchv1.CronJob{}).WithDefaulter(d).WithValidator(v).Complete()
//
// If the versions of the kind implement Hub and Convertible, a conversion webhook is served at
// ConvertPath.
func NewWebhookManagedBy[T runtime.Object, S Registrar](mgr Manager[S], obj T) *WebhookBuilder[T] {
	return &WebhookBuilder[T]{scheme: mgr.GetScheme(), log: mgr.GetLogger(), server: mgr.GetWebhookServer(), obj: obj}
}

// WithDefaulter serves d at /mutate-GROUP-VERSION-KIND, in lower case and with dashes for the dots
// of the group.
func (b *WebhookBuilder[T]) WithDefaulter(d Defaulter[T], opts ...DefaulterOption) *WebhookBuilder[T] {
	b.defaulters++
	b.defaulting = func() *Webhook { return newDefaulting(b.scheme, d, newOf[T](reflect.TypeOf(b.obj)), opts) }
	return b
}

// WithCustomDefaulter is WithDefaulter for a Defaulter of any type.
func (b *WebhookBuilder[T]) WithCustomDefaulter(d CustomDefaulter, opts ...DefaulterOption) *WebhookBuilder[T] {
	b.defaulters++
	b.defaulting = func() *Webhook { return WithCustomDefaulter(b.scheme, b.obj, d, opts...) }
	return b
}

// WithValidator serves v at /validate-GROUP-VERSION-KIND, in lower case and with dashes for the
// dots of the group.
func (b *WebhookBuilder[T]) WithValidator(v Validator[T]) *WebhookBuilder[T] {
	b.validators++
	b.validating = func() *Webhook { return newValidating(b.scheme, v, newOf[T](reflect.TypeOf(b.obj))) }
	return b
}

// WithCustomValidator is WithValidator for a Validator of any type.
func (b *WebhookBuilder[T]) WithCustomValidator(v CustomValidator) *WebhookBuilder[T] {
	b.validators++
	b.validating = func() *Webhook { return WithCustomValidator(b.scheme, b.obj, v) }
	return b
}

// WithConverter serves a Converter at ConvertPath: see Convert and NewHubSpokeConverter.
func (b *WebhookBuilder[T]) WithConverter(converter func(*runtime.Scheme) (Converter, error)) *WebhookBuilder[T] {
	b.converter = converter
	return b
}

// WithDefaulterCustomPath sets the path of the Defaulter.
func (b *WebhookBuilder[T]) WithDefaulterCustomPath(path string) *WebhookBuilder[T] {
	b.defaulterPath = path
	return b
}

// WithValidatorCustomPath sets the path of the Validator.
func (b *WebhookBuilder[T]) WithValidatorCustomPath(path string) *WebhookBuilder[T] {
	b.validatorPath = path
	return b
}

// WithLogConstructor sets Webhook.LogConstructor.
func (b *WebhookBuilder[T]) WithLogConstructor(log func(base logr.Logger, req *Request) logr.Logger) *WebhookBuilder[T] {
	b.logConstructor = log
	return b
}

// WithContextFunc sets Webhook.WithContextFunc.
func (b *WebhookBuilder[T]) WithContextFunc(f func(context.Context, *http.Request) context.Context) *WebhookBuilder[T] {
	b.withContext = f
	return b
}

// RecoverPanic sets Webhook.RecoverPanic. Default true.
func (b *WebhookBuilder[T]) RecoverPanic(recoverPanic bool) *WebhookBuilder[T] {
	b.recoverPanic = &recoverPanic
	return b
}

// Complete registers the webhooks. A path that is registered already keeps its handler.
func (b *WebhookBuilder[T]) Complete() error {
	if v := reflect.ValueOf(b.obj); v.Kind() != reflect.Pointer || v.IsNil() {
		return errors.New("NewWebhookManagedBy needs an object: a pointer to a type of the scheme")
	}
	if b.server == nil {
		return errors.New("the manager has no webhook server: set Options.WebhookServer to one of NewServer")
	}
	var err error
	if b.gvk, err = kindOf(b.scheme, b.obj); err != nil {
		return err
	}
	if b.defaulters > 1 {
		return errors.New("only one of Defaulter and CustomDefaulter can be set")
	}
	if b.validators > 1 {
		return errors.New("only one of Validator and CustomValidator can be set")
	}
	if err := b.register("mutate", b.defaulterPath, b.defaulting); err != nil {
		return err
	}
	if err := b.register("validate", b.validatorPath, b.validating); err != nil {
		return err
	}
	return b.registerConversion()
}

func (b *WebhookBuilder[T]) register(verb, path string, hook func() *Webhook) error {
	if hook == nil {
		return nil
	}
	if path == "" {
		path = "/" + verb + "-" + strings.ReplaceAll(b.gvk.Group, ".", "-") + "-" + b.gvk.Version + "-" + strings.ToLower(b.gvk.Kind)
	} else if !customPath.MatchString(path) {
		return fmt.Errorf("path %q of a webhook: want %s", path, customPath)
	}
	if b.isTaken(path) {
		return nil
	}
	wh := hook()
	wh.RecoverPanic, wh.WithContextFunc, wh.LogConstructor = b.recoverPanic, b.withContext, b.logConstructor
	wh.log = b.log.WithName("admission")
	if wh.LogConstructor == nil {
		wh.LogConstructor = b.describe
	}
	b.server.Register(path, wh)
	return nil
}

var customPath = regexp.MustCompile(`^((/[a-zA-Z0-9-_]+)+|/)$`)

// describe returns the LogConstructor for webhooks of a kind.
func (b *WebhookBuilder[T]) describe(base logr.Logger, req *Request) logr.Logger {
	log := base.WithValues("webhookGroup", b.gvk.Group, "webhookKind", b.gvk.Kind)
	if req == nil {
		return log
	}
	return log.WithValues(b.gvk.Kind, klog.KRef(req.Namespace, req.Name),
		"namespace", req.Namespace, "name", req.Name,
		"resource", req.Resource, "user", req.UserInfo.Username,
		"requestID", req.UID,
	)
}

// registerConversion registers a converter with the server, unless the kind needs none.
func (b *WebhookBuilder[T]) registerConversion() error {
	server, ok := b.server.(interface{ Converters() *Converters })
	if b.converter != nil {
		if !ok {
			return fmt.Errorf("WithConverter needs a server of NewServer, not a %T", b.server)
		}
		converter, err := b.converter(b.scheme)
		if err != nil {
			return fmt.Errorf("the converter of %s: %w", b.gvk.GroupKind(), err)
		}
		if err := server.Converters().Register(b.gvk.GroupKind(), converter); err != nil {
			return err
		}
	} else if convertible, err := IsConvertible(b.scheme, b.obj); err != nil || !convertible {
		return err
	}
	if b.isTaken(ConvertPath) {
		return nil
	}
	var converters *Converters
	if ok {
		converters = server.Converters()
	}
	b.server.Register(ConvertPath, NewConversionHandler(b.scheme, converters))
	return nil
}

func (b *WebhookBuilder[T]) isTaken(path string) bool {
	mux := b.server.WebhookMux()
	if mux == nil {
		return false
	}
	_, pattern := mux.Handler(&http.Request{URL: &url.URL{Path: path}})
	return pattern == path
}
