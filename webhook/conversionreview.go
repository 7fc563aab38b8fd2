package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kjson "sigs.k8s.io/json"
)

// maxConversionReview is the size limit of a review in bytes. API servers send a page of a list in
// one review.
const maxConversionReview = 64 << 20

// NewConversionHandler returns the handler to serve at /convert. It answers ConversionReviews of
// apiextensions.k8s.io/v1 and v1beta1 for the types of a scheme, with the Converter of their kind
// or with their own methods. converters may be nil.
//
// It converts all objects, in order, or none: then the answer is a Status that names the object and
// the error. A body that is no review is an HTTP error.
func NewConversionHandler(scheme *runtime.Scheme, converters *Converters) http.Handler {
	if converters == nil {
		converters = &Converters{}
	}
	return &conversion{scheme: scheme, decoder: serializer.NewCodecFactory(scheme).UniversalDeserializer(), converters: converters}
}

type conversion struct {
	scheme     *runtime.Scheme
	decoder    runtime.Decoder
	converters *Converters
}

func (c *conversion) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	log := loggerFrom(r.Context()).WithName("conversion-webhook")
	review, code, err := readConversionReview(r)
	if err != nil {
		log.Error(err, "bad request")
		http.Error(w, err.Error(), int(code))
		return
	}
	resp := &apiextensionsv1.ConversionResponse{UID: review.Request.UID}
	if resp.ConvertedObjects, err = c.convertAll(r.Context(), review.Request); err != nil {
		log.Error(err, "failed to convert", "request", review.Request.UID)
		resp.Result = failure(err)
	} else {
		resp.Result.Status = metav1.StatusSuccess
	}
	review.Request, review.Response = nil, resp
	if err := writeJSON(w, review); err != nil {
		log.Error(err, "unable to write the response")
	}
}

// readConversionReview reads a review that has a request. The code is the HTTP status of the error.
func readConversionReview(r *http.Request) (review apiextensionsv1.ConversionReview, code int32, err error) {
	body, code, err := readBody(r, maxConversionReview) // of any content type: not all API servers say it
	if err != nil {
		return review, code, err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return review, http.StatusBadRequest, fmt.Errorf("decoding the ConversionReview: %w", err)
	}
	switch gvk := review.GroupVersionKind(); gvk {
	case schema.GroupVersionKind{}:
		review.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"))
	case apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"), apiextensionsv1beta1.SchemeGroupVersion.WithKind("ConversionReview"):
	default:
		return review, http.StatusBadRequest, fmt.Errorf("%s is not supported, want ConversionReview of %s or %s", gvk,
			apiextensionsv1.SchemeGroupVersion, apiextensionsv1beta1.SchemeGroupVersion)
	}
	if review.Request == nil {
		return review, http.StatusBadRequest, errors.New("the ConversionReview has no request")
	}
	return review, 0, nil
}

func failure(err error) metav1.Status {
	result := metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		result.Code, result.Reason, result.Details = s.Code, s.Reason, s.Details
	}
	return result
}

func (c *conversion) convertAll(ctx context.Context, req *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error) {
	desired, err := schema.ParseGroupVersion(req.DesiredAPIVersion)
	if err != nil || desired.Empty() {
		return nil, fmt.Errorf("desiredAPIVersion %q is not a version", req.DesiredAPIVersion)
	}
	converted := make([]runtime.RawExtension, 0, len(req.Objects))
	for i, obj := range req.Objects {
		if err := ctx.Err(); err != nil {
			return nil, err // the client has closed the connection
		}
		raw, err := c.convert(ctx, obj.Raw, desired)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		converted = append(converted, runtime.RawExtension{Raw: raw})
	}
	return converted, nil
}

// convert converts an object. A panic of its converter becomes an error.
func (c *conversion) convert(ctx context.Context, raw []byte, desired schema.GroupVersion) (_ []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			metricsFrom(ctx).panicked()
			err = fmt.Errorf("panic: %v [recovered]", p)
			loggerFrom(ctx).Error(err, "the converter panicked", "stack", string(debug.Stack()))
		}
	}()
	if len(raw) == 0 {
		return nil, errors.New("there is no content to decode")
	}
	src, gvk, err := c.decoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	if gvk.GroupVersion() == desired {
		return raw, nil
	}
	if gvk.Group != desired.Group {
		return nil, fmt.Errorf("cannot convert %s to %s: the groups differ", gvk, desired)
	}
	src.GetObjectKind().SetGroupVersionKind(*gvk)
	dst, err := c.scheme.New(desired.WithKind(gvk.Kind))
	if err != nil {
		return nil, err
	}
	dst.GetObjectKind().SetGroupVersionKind(desired.WithKind(gvk.Kind))

	converter, ok := c.converters.get(gvk.GroupKind())
	if !ok {
		converter = bySelf{c.scheme}
	}
	same, err := identityOf(src)
	if err != nil {
		return nil, err
	}
	if err := converter.ConvertObject(ctx, src, dst); err != nil {
		return nil, fmt.Errorf("%s %s to %s: %w", gvk.Kind, same, desired, err)
	}
	// Functions that copy all of an object copy its version, too.
	dst.GetObjectKind().SetGroupVersionKind(desired.WithKind(gvk.Kind))
	if now, err := identityOf(dst); err != nil || now != same {
		return nil, fmt.Errorf("%s %s to %s: name, namespace and uid must not change, but are now %s", gvk.Kind, same, desired, now)
	}
	return json.Marshal(dst)
}

// identity is the metadata that a conversion must not change.
type identity struct{ namespace, name, uid string }

func (i identity) String() string { return fmt.Sprintf("%s/%s (%s)", i.namespace, i.name, i.uid) }

func identityOf(obj runtime.Object) (identity, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return identity{}, err
	}
	return identity{m.GetNamespace(), m.GetName(), string(m.GetUID())}, nil
}
