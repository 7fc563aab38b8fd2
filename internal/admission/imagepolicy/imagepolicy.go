// Package imagepolicy asks a webhook whether pods may use their images, as Kubernetes' admission
// plugin ImagePolicyWebhook does. The webhook gets an ImageReview of imagepolicy.k8s.io/v1alpha1
// with the images of a pod and its annotations *.image-policy.k8s.io/*, whenever the pod is created
// or updated, and the images of its ephemeral containers when those are.
//
// A [Plugin] caches 1024 responses. A request waits for up to five attempts, and is rejected if
// they fail, unless the configuration says otherwise. The plugin keeps connections and starts no
// goroutine except those of net/http, which end with Close. It is safe for concurrent use.
package imagepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// Name is the name of the plugin.
const Name = "ImagePolicyWebhook"

// ephemeral is the subresource for the ephemeral containers of a pod.
const ephemeral = "ephemeralcontainers"

// auditPrefix is the prefix of audit annotations.
const auditPrefix = "imagepolicywebhook.image-policy.k8s.io/"

// maxCached is the maximum number of cached responses.
const maxCached = 1024

// A Plugin is the plugin ImagePolicyWebhook. It implements admission.Validator.
type Plugin struct {
	policy    *policy
	webhook   webhook.GenericWebhook
	transport *http.Transport
	responses *cache.LRUExpireCache // of spec as JSON -> status
}

// New returns the plugin with a configuration in JSON or YAML, which it cannot do without.
func New(configuration []byte) (*Plugin, error) {
	if len(configuration) == 0 {
		return nil, errors.New("it needs a configuration in the admission control configuration file")
	}
	policy, err := load(configuration)
	if err != nil {
		return nil, err
	}
	p := &Plugin{policy: policy, responses: cache.NewLRUExpireCache(maxCached)}
	client, err := p.connect()
	if err != nil {
		return nil, fmt.Errorf("imagePolicy.kubeConfigFile %s: %w", policy.kubeconfig, err)
	}
	p.webhook = webhook.GenericWebhook{RestClient: client, RetryBackoff: webhook.DefaultRetryBackoffWithInitialDelay(policy.wait)}
	return p, nil
}

// connect returns a client for the webhook in the kubeconfig.
func (p *Plugin) connect() (*rest.RESTClient, error) {
	config, err := webhook.LoadKubeconfig(p.policy.kubeconfig, nil)
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	// This transport is not shared: those of client-go are shared by the whole process.
	p.transport = http.DefaultTransport.(*http.Transport).Clone()
	p.transport.TLSClientConfig = secure
	if config.Proxy != nil {
		p.transport.Proxy = config.Proxy
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, p.transport) // further credentials in the kubeconfig
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = reviewSerializer()
	return rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{Transport: wrapped, Timeout: config.Timeout})
}

// reviewSerializer encodes and decodes reviews, and decodes a Status in place of one.
func reviewSerializer() runtime.NegotiatedSerializer {
	version := imagepolicyv1alpha1.SchemeGroupVersion
	scheme := runtime.NewScheme()
	utilruntime.Must(imagepolicyv1alpha1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(version)
	return serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: codec})
}

// Close closes idle connections. It is called after the last request.
func (p *Plugin) Close() { p.transport.CloseIdleConnections() }

// Handles implements admission.Plugin.
func (p *Plugin) Handles(r *resource.Request, op resource.Operation) bool {
	return (op == resource.OperationCreate || op == resource.OperationUpdate) &&
		r.Definition.Plural == "pods" && r.Definition.Group == "" && (r.Subresource == "" || r.Subresource == ephemeral)
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *resource.Admitted) error {
	spec, err := specOf(a)
	if err != nil {
		return err
	}
	status, err := p.review(ctx, spec)
	if err != nil {
		if !p.policy.failsOpen {
			return admission.Forbidden(a, err)
		}
		annotate(a, "failed-open", "true")
		return nil
	}
	for key, value := range status.AuditAnnotations {
		annotate(a, key, value)
	}
	switch {
	case status.Allowed:
		return nil
	case status.Reason != "":
		return admission.Forbidden(a, fmt.Errorf("image policy webhook backend denied one or more images: %s", status.Reason))
	}
	return admission.Forbidden(a, errors.New("one or more images rejected by webhook backend"))
}

func annotate(a *resource.Admitted, key, value string) {
	if a.Request.Annotate != nil {
		a.Request.Annotate(auditPrefix+key, value)
	}
}

// pod has the fields of a pod that the webhook may see.
type pod struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Containers          []container `json:"containers"`
		InitContainers      []container `json:"initContainers"`
		EphemeralContainers []container `json:"ephemeralContainers"`
	} `json:"spec"`
}

type container = imagepolicyv1alpha1.ImageReviewContainerSpec

// specOf returns the review of the pod of a request.
func specOf(a *resource.Admitted) (*imagepolicyv1alpha1.ImageReviewSpec, error) {
	p, err := admission.Decode[pod](a.Object)
	if err != nil {
		return nil, err
	}
	spec := &imagepolicyv1alpha1.ImageReviewSpec{Annotations: map[string]string{}, Namespace: a.Request.Namespace}
	if a.Request.Subresource == ephemeral {
		spec.Containers = p.Spec.EphemeralContainers
	} else {
		spec.Containers = append(p.Spec.Containers, p.Spec.InitContainers...)
	}
	for key, value := range p.Metadata.Annotations {
		if strings.Contains(key, ".image-policy.k8s.io/") {
			spec.Annotations[key] = value
		}
	}
	return spec, nil
}

// review returns the webhook's response, which may be a cached one.
func (p *Plugin) review(ctx context.Context, spec *imagepolicyv1alpha1.ImageReviewSpec) (*imagepolicyv1alpha1.ImageReviewStatus, error) {
	key, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if known, ok := p.responses.Get(string(key)); ok {
		return known.(*imagepolicyv1alpha1.ImageReviewStatus), nil
	}
	review := &imagepolicyv1alpha1.ImageReview{Spec: *spec}
	result := p.webhook.WithExponentialBackoff(ctx, func() rest.Result {
		return p.webhook.RestClient.Post().Body(review).Do(ctx)
	})
	if err := result.Into(review); err != nil { // which may be the error of the request
		return nil, err
	}
	if ttl := p.ttl(&review.Status); ttl > 0 {
		p.responses.Add(string(key), &review.Status, ttl)
	}
	return &review.Status, nil
}

func (p *Plugin) ttl(s *imagepolicyv1alpha1.ImageReviewStatus) time.Duration {
	if s.Allowed {
		return p.policy.allowTTL
	}
	return p.policy.denyTTL
}
