package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/kapok-dev/kapok/internal/admission/match"
	"github.com/kapok-dev/kapok/internal/authn"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// A review is an AdmissionReview: the request, and the response, of the same version.
type review struct {
	uid      types.UID
	request  []byte
	response runtime.Object
}

// review returns the request to a webhook in the first version of AdmissionReview that both sides
// support.
func (q *question) review(h *hook, s *shown) (*review, error) {
	r := &review{uid: uuid.NewUUID()}
	for _, version := range h.AdmissionReviewVersions {
		switch version {
		case admissionv1.SchemeGroupVersion.Version:
			r.response = &admissionv1.AdmissionReview{}
		case admissionv1beta1.SchemeGroupVersion.Version:
			r.response = &admissionv1beta1.AdmissionReview{}
		default:
			continue
		}
		request, err := q.request(r.uid, s)
		if err != nil {
			return nil, err
		}
		r.request, err = json.Marshal(map[string]any{
			"kind": "AdmissionReview", "apiVersion": admissionv1.GroupName + "/" + version, "request": request,
		})
		return r, err
	}
	return nil, errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// request returns the request, which is the same in both versions.
func (q *question) request(uid types.UID, s *shown) (*admissionv1.AdmissionRequest, error) {
	if err := s.encode(); err != nil {
		return nil, err
	}
	r, u := q.Request, authn.Of(q.Request.User)
	kind, own := metav1.GroupVersionKind(q.Kind), metav1.GroupVersionResource(r.Definition.GroupVersion(r.Version).WithResource(r.Definition.Plural))
	extra := map[string]authenticationv1.ExtraValue{}
	for key, values := range u.Extra {
		extra[key] = values
	}
	return &admissionv1.AdmissionRequest{
		UID:                uid,
		Kind:               metav1.GroupVersionKind(s.Kind),
		Resource:           metav1.GroupVersionResource(s.Resource),
		SubResource:        r.Subresource,
		RequestKind:        &kind,
		RequestResource:    &own,
		RequestSubResource: r.Subresource,
		Name:               q.Name,
		Namespace:          match.Namespace(q.Admitted),
		Operation:          admissionv1.Operation(q.Operation),
		UserInfo:           authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: extra},
		Object:             runtime.RawExtension{Raw: s.objectJSON},
		OldObject:          runtime.RawExtension{Raw: s.oldJSON},
		DryRun:             &r.DryRun,
		Options:            runtime.RawExtension{Object: q.Options},
	}, nil
}

// codecs decode AdmissionReviews. They are immutable.
var codecs = sync.OnceValue(func() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	for _, gv := range []schema.GroupVersion{admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion} {
		metav1.AddToGroupVersion(scheme, gv)
	}
	scheme.AddKnownTypes(admissionv1beta1.SchemeGroupVersion, &admissionv1beta1.AdmissionReview{})
	scheme.AddKnownTypes(admissionv1.SchemeGroupVersion, &admissionv1.AdmissionReview{})
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion)
	return serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: codec})
})

// An answer is the content of a response of either version.
type answer struct {
	Allowed          bool
	Result           *metav1.Status
	Patch            []byte
	PatchType        admissionv1.PatchType
	AuditAnnotations map[string]string
	Warnings         []string
}

var errNoResponse = errors.New("webhook response was absent")

// answer returns the response if it answers this request, and has only fields that webhooks of its
// kind may set. Reviews of v1beta1 may omit their kind and uid.
func (r *review) answer(mutates bool) (*answer, error) {
	switch response := r.response.(type) {
	case *admissionv1beta1.AdmissionReview:
		a := response.Response
		if a == nil {
			return nil, errNoResponse
		}
		read := &answer{Allowed: a.Allowed, Result: a.Result, AuditAnnotations: a.AuditAnnotations, Warnings: a.Warnings}
		if mutates && len(a.Patch) > 0 {
			read.Patch, read.PatchType = a.Patch, admissionv1.PatchTypeJSONPatch
		}
		return read, nil
	case *admissionv1.AdmissionReview:
		a, want := response.Response, admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
		switch got := response.GroupVersionKind(); {
		case a == nil:
			return nil, errNoResponse
		case a.UID != r.uid:
			return nil, fmt.Errorf("expected response.uid=%q, got %q", r.uid, a.UID)
		case got != want:
			return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
		case !mutates && len(a.Patch) > 0:
			return nil, errors.New("validating webhook may not return response.patch")
		case !mutates && a.PatchType != nil:
			return nil, errors.New("validating webhook may not return response.patchType")
		case len(a.Patch) > 0 && a.PatchType == nil:
			return nil, errors.New("webhook returned response.patch but not response.patchType")
		case len(a.Patch) == 0 && a.PatchType != nil:
			return nil, errors.New("webhook returned response.patchType but not response.patch")
		case a.PatchType != nil && *a.PatchType == "":
			return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", "")
		}
		read := &answer{Allowed: a.Allowed, Result: a.Result, Patch: a.Patch, AuditAnnotations: a.AuditAnnotations, Warnings: a.Warnings}
		if a.PatchType != nil {
			read.PatchType = *a.PatchType
		}
		return read, nil
	}
	return nil, fmt.Errorf("unexpected response type %T", r.response)
}

// refusal returns the error of a rejected request. The webhook chooses the code, from 400 on, and
// the message.
func refusal(name string, result *metav1.Status) *apierrors.StatusError {
	if result == nil {
		result = &metav1.Status{}
	}
	status := *result
	status.Code = max(status.Code, http.StatusBadRequest)
	if status.Status == "" || status.Status == metav1.StatusSuccess {
		status.Status = metav1.StatusFailure
	}
	why := " without explanation"
	if status.Message != "" {
		why = ": " + status.Message
	} else if status.Reason != "" {
		why = ": " + string(status.Reason)
	}
	status.Message = fmt.Sprintf("admission webhook %q denied the request%s", name, why)
	return &apierrors.StatusError{ErrStatus: status}
}
