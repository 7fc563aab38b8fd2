package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// maxAdmissionReview is the size limit of a review in bytes: two objects of the largest size that
// an API server accepts, and the fields around them.
const maxAdmissionReview = 7 << 20

// ServeHTTP answers an AdmissionReview of admission.k8s.io/v1 or v1beta1 in its own version, or in
// v1 if the version cannot be read. An invalid review is answered with its error; the HTTP status
// is always 200.
func (wh *Webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if wh.WithContextFunc != nil {
		ctx = wh.WithContextFunc(ctx, r)
	}
	log := wh.logger(ctx, nil)

	review, code, err := readReview(r)
	if err != nil {
		log.Error(err, "bad request")
		resp := Errored(code, err)
		if review.Request != nil {
			resp.UID = review.Request.UID
		}
		version := admissionV1
		if review.APIVersion == admissionV1beta1.APIVersion {
			version = admissionV1beta1
		}
		writeReview(w, version, resp)
		return
	}
	req := Request{AdmissionRequest: *review.Request}
	log = wh.logger(ctx, &req)
	log.V(5).Info("received request")
	resp := wh.Handle(ctx, req)
	log.V(5).Info("answered request", "allowed", resp.Allowed, "code", resp.Result.Code, "reason", resp.Result.Reason, "message", resp.Result.Message)
	if err := writeReview(w, review.TypeMeta, resp); err != nil {
		log.Error(err, "unable to write the response")
	}
}

var (
	admissionV1      = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}
	admissionV1beta1 = metav1.TypeMeta{APIVersion: admissionv1beta1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}
)

// readReview reads a review that has a request. The code is the HTTP status of the error.
func readReview(r *http.Request) (review admissionv1.AdmissionReview, code int32, err error) {
	body, code, err := readBody(r, maxAdmissionReview)
	if err != nil {
		return review, code, err
	}
	contentType := r.Header.Get("Content-Type")
	if mediaType, _, err := mime.ParseMediaType(contentType); err != nil || mediaType != runtime.ContentTypeJSON {
		return review, http.StatusBadRequest, fmt.Errorf("contentType=%s, expected %s", contentType, runtime.ContentTypeJSON)
	}
	// Both versions have the same fields.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return review, http.StatusBadRequest, fmt.Errorf("decoding the AdmissionReview: %w", err)
	}
	if review.TypeMeta == (metav1.TypeMeta{}) {
		review.TypeMeta = admissionV1
	}
	switch review.APIVersion {
	case admissionV1.APIVersion, admissionV1beta1.APIVersion:
	default:
		return review, http.StatusBadRequest, fmt.Errorf("version %q is not supported, want %s or %s", review.APIVersion,
			admissionV1.APIVersion, admissionV1beta1.APIVersion)
	}
	if review.Kind != "AdmissionReview" {
		return review, http.StatusBadRequest, fmt.Errorf("kind %q is not supported, want AdmissionReview", review.Kind)
	}
	if review.Request == nil {
		return review, http.StatusBadRequest, errors.New("the AdmissionReview has no request")
	}
	return review, 0, nil
}

// readBody reads the body of a request, up to limit bytes. The code is the HTTP status of the
// error.
func readBody(r *http.Request, limit int64) (body []byte, code int32, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, http.StatusBadRequest, errors.New("request body is empty")
	}
	body, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("request entity is too large; limit is %d bytes", limit)
	}
	return body, 0, nil
}

func writeReview(w http.ResponseWriter, version metav1.TypeMeta, resp Response) error {
	return writeJSON(w, admissionv1.AdmissionReview{TypeMeta: version, Response: &resp.AdmissionResponse})
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	return json.NewEncoder(w).Encode(v)
}
