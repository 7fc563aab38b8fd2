package conversion

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
)

// A review is one request to a webhook, and its response.
type review struct {
	uid     types.UID
	request []byte
	answer  runtime.Object // a ConversionReview of the version of the request
}

// newReview returns the request for objects in the first of the given versions of ConversionReview
// that the server supports.
func newReview(versions []string, objs []Tree, to string) (*review, error) {
	for _, version := range versions {
		r := &review{uid: uuid.NewUUID()}
		switch version {
		case apiextensionsv1.SchemeGroupVersion.Version:
			r.answer = &apiextensionsv1.ConversionReview{}
		case apiextensionsv1beta1.SchemeGroupVersion.Version:
			r.answer = &apiextensionsv1beta1.ConversionReview{}
		default:
			continue
		}
		return r, r.encode(version, objs, to)
	}
	return nil, errors.New("no supported conversion review versions")
}

// A problem is the reason why objects were not converted.
type problem struct {
	kind failure
	text string
}

// ask sends the request and checks the response.
func (r *review) ask(ctx context.Context, client *rest.RESTClient, objs []Tree, to string) ([]Tree, *problem) {
	fail := func(kind failure, format string, args ...any) ([]Tree, *problem) {
		return nil, &problem{kind, fmt.Sprintf("conversion webhook for %v ", kindOf(objs[0])) + fmt.Sprintf(format, args...)}
	}
	if err := client.Post().SetHeader("Content-Type", "application/json").Body(r.request).Do(ctx).Into(r.answer); err != nil {
		return fail(callFailed, "failed: %v", err)
	}
	raw, err := r.converted()
	if err != nil {
		return fail(malformedAnswer, "failed: %v", err)
	}
	if len(raw) != len(objs) {
		return fail(partialAnswer, "returned %d objects, expected %d", len(raw), len(objs))
	}
	results := make([]Tree, len(objs))
	for i := range objs {
		results[i], err = decode(raw[i].Raw)
		switch {
		case err != nil && len(objs) == 1:
			return nil, &problem{invalidConverted, err.Error()} // without a prefix, as in Kubernetes
		case err != nil:
			return fail(invalidConverted, "returned invalid converted object at index %d: %v", i, err)
		}
		if err := accept(objs[i], results[i], to, i, len(objs) > 1); err != nil {
			return fail(invalidConverted, "returned %v", err)
		}
	}
	return results, nil
}

// encode writes the bytes that kube-apiserver writes, including the empty response. Objects can be
// many, and so they are spliced in instead of passing through the Go type.
func (r *review) encode(version string, objs []Tree, to string) (err error) {
	b := make([]byte, 0, 512+2048*len(objs))
	b = append(b, `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/`+version+`"`...)
	b = append(b, `,"request":{"uid":"`+string(r.uid)+`","desiredAPIVersion":`...)
	b = object.AppendString(b, to)
	b = append(b, `,"objects":[`...)
	for i, obj := range objs {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = object.AppendJSON(b, obj); err != nil {
			return err
		}
	}
	r.request = append(b, `]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}`...)
	return nil
}

// converted returns the objects of the response if it answers this request and reports success.
// Responses of v1beta1 may omit their kind and uid.
func (r *review) converted() ([]runtime.RawExtension, error) {
	switch answer := r.answer.(type) {
	case *apiextensionsv1.ConversionReview:
		want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview")
		if got := answer.GroupVersionKind(); got != want {
			return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
		}
		if answer.Response == nil {
			return nil, errNoResponse
		}
		if answer.Response.UID != r.uid {
			return nil, fmt.Errorf("expected response.uid=%q, got %q", r.uid, answer.Response.UID)
		}
		return answer.Response.ConvertedObjects, success(&answer.Response.Result)
	case *apiextensionsv1beta1.ConversionReview:
		if answer.Response == nil {
			return nil, errNoResponse
		}
		return answer.Response.ConvertedObjects, success(&answer.Response.Result)
	}
	return nil, fmt.Errorf("unrecognized response type: %T", r.answer)
}

var errNoResponse = errors.New("no response provided")

func success(s *metav1.Status) error {
	switch {
	case s.Status == metav1.StatusSuccess:
		return nil
	case s.Message != "":
		return errors.New(s.Message)
	}
	return fmt.Errorf("response.result.status was '%s', not 'Success'", s.Status)
}
