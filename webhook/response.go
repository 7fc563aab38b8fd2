package webhook

import (
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Allowed lets an operation pass.
func Allowed(message string) Response { return ValidationResponse(true, message) }

// Denied refuses an operation: 403 Forbidden, with the message.
func Denied(message string) Response { return ValidationResponse(false, message) }

// Errored refuses an operation because it could not be judged, with an HTTP status code.
func Errored(code int32, err error) Response {
	return statusResponse(metav1.Status{Code: code, Message: err.Error()})
}

// Patched lets an operation pass with a change of its object.
func Patched(message string, patches ...JSONPatchOp) Response {
	resp := Allowed(message)
	resp.Patches = patches
	return resp
}

// ValidationResponse is Allowed or Denied.
func ValidationResponse(allowed bool, message string) Response {
	status := metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}
	if allowed {
		status.Code, status.Reason = http.StatusOK, ""
	}
	resp := statusResponse(status)
	resp.Allowed = allowed
	return resp
}

// PatchResponseFromRaw lets an operation pass with the change that makes current of original, both in JSON.
func PatchResponseFromRaw(original, current []byte) Response {
	patches, err := CreatePatch(original, current)
	if err != nil {
		return Errored(http.StatusInternalServerError, err)
	}
	return patchResponse(patches)
}

func patchResponse(patches []JSONPatchOp) Response {
	resp := Response{Patches: patches}
	resp.Allowed = true
	if len(patches) > 0 {
		resp.PatchType = new(admissionv1.PatchTypeJSONPatch)
	}
	return resp
}

// refused is the answer to an error of a Defaulter or a Validator. An error of the API keeps its code, reason and details; all
// others are 403 Forbidden.
func refused(err error) Response {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return statusResponse(status.Status())
	}
	return Denied(err.Error())
}

// statusResponse refuses an operation with a status.
func statusResponse(status metav1.Status) Response {
	return Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
