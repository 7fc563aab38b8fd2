package conversion

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/tracing"
	"github.com/kapok-dev/kapok/internal/webhook"

	"go.opentelemetry.io/otel/attribute"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// A Tree is the decoded JSON of an object: map[string]any, []any, string, bool, int64, float64 and
// nil.
type Tree = map[string]any

// Webhooks has what the conversion webhooks of a server share: connections and metrics. Close ends
// their calls.
type Webhooks struct {
	*webhook.Caller
	Metrics *Metrics
}

// NewWebhooks returns Webhooks that are reached as the options say.
func NewWebhooks(o webhook.Options) *Webhooks { return &Webhooks{webhook.New(o), NewMetrics()} }

// A Webhook converts the objects of one custom resource. It is immutable and safe for concurrent
// use.
type Webhook struct {
	shared  *Webhooks
	name    string // of the CustomResourceDefinition
	hook    *webhook.Hook
	reviews []string // supported versions of ConversionReview, preferred ones first
}

// New returns the webhook that the given CustomResourceDefinition names. It connects to nothing.
func (shared *Webhooks) New(name string, c *apiextensionsv1.WebhookConversion) *Webhook {
	config := webhook.Config{Name: "conversion_webhook_for_" + name, Repeatable: true}
	if c != nil && c.ClientConfig != nil {
		config.CABundle = c.ClientConfig.CABundle
		if url := c.ClientConfig.URL; url != nil {
			config.URL = *url
		}
		if s := c.ClientConfig.Service; s != nil {
			config.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
			if s.Port != nil {
				config.Service.Port = *s.Port
			}
			if s.Path != nil {
				config.Service.Path = *s.Path
			}
		}
	}
	w := &Webhook{shared: shared, name: name, hook: webhook.NewHook(config)}
	if c != nil {
		w.reviews = c.ConversionReviewVersions
	}
	return w
}

// Convert converts objects to a version, "group/version", in one call. None of them may have that
// version already. The objects must not be used afterwards, even if there is an error; results come
// in the same order. Errors are not Statuses, because a failure between server and webhook is not
// the client's; once ctx is done, its error is returned.
func (w *Webhook) Convert(ctx context.Context, objs []Tree, to string) ([]Tree, error) {
	results := make([]Tree, len(objs))
	var full []Tree // objects with content to convert
	var at []int    // the indices of their results
	for i, obj := range objs {
		if isEmpty(obj) {
			obj["apiVersion"] = to
			results[i] = obj
			continue
		}
		full, at = append(full, obj), append(at, i)
	}
	if len(full) == 0 {
		return results, nil
	}
	converted, err := w.ask(ctx, full, to)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		results[i] = converted[n]
	}
	return results, nil
}

// isEmpty reports whether an object has nothing to convert.
func isEmpty(obj Tree) bool {
	_, hasKind := obj["kind"]
	_, hasVersion := obj["apiVersion"]
	return len(obj) == 2 && hasKind && hasVersion
}

func (w *Webhook) ask(ctx context.Context, objs []Tree, to string) (_ []Tree, err error) {
	ctx, span := tracing.Start(ctx, "Call conversion webhook")
	defer func() { tracing.End(span, err) }()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("custom_resource_definition", w.name), attribute.String("desired_version", to), attribute.Int("objects", len(objs)))
	}
	r, err := newReview(w.reviews, objs, to)
	if err != nil {
		return nil, err
	}
	client, err := w.shared.Client(w.hook, codecs())
	if err != nil {
		return nil, err
	}
	from, started := kindOf(objs[0]), time.Now()
	_, version, _ := strings.Cut(to, "/")
	results, problem := r.ask(ctx, client, objs, to)
	w.shared.Metrics.observe(w.name, from.Version, version, time.Since(started), problem)
	switch {
	case problem == nil:
		return results, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, errors.New(problem.text)
}

// codecs encode and decode ConversionReviews. They are immutable.
var codecs = sync.OnceValue(func() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	for _, gv := range []schema.GroupVersion{apiextensionsv1.SchemeGroupVersion, apiextensionsv1beta1.SchemeGroupVersion} {
		metav1.AddToGroupVersion(scheme, gv)
	}
	scheme.AddKnownTypes(apiextensionsv1.SchemeGroupVersion, &apiextensionsv1.ConversionReview{})
	scheme.AddKnownTypes(apiextensionsv1beta1.SchemeGroupVersion, &apiextensionsv1beta1.ConversionReview{})
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(apiextensionsv1.SchemeGroupVersion, apiextensionsv1beta1.SchemeGroupVersion)
	return serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: codec})
})
