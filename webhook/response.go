package webhook

import (
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Allowed returns a response that admits an operation.
func Allowed(message string) Response { return ValidationResponse(true, message) }

// Denied returns a response that denies an operation: 403 Forbidden, with the message.
func Denied(message string) Response { return ValidationResponse(false, message) }

// Errored returns a response that denies an operation because of an error, with an HTTP status
// code.
func Errored(code int32, err error) Response {
	return statusResponse(metav1.Status{Code: code, Message: err.Error()})
}

// Patched returns a response that admits an operation and patches its object.
func Patched(message string, patches ...JSONPatchOp) Response {
	resp := Allowed(message)
	resp.Patches = patches
	return resp
}

// ValidationResponse returns Allowed or Denied.
func ValidationResponse(allowed bool, message string) Response {
	status := metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}
	if allowed {
		status.Code, status.Reason = http.StatusOK, ""
	}
	resp := statusResponse(status)
	resp.Allowed = allowed
	return resp
}

// PatchResponseFromRaw returns a response that admits an operation with the patch from original to
// current, both in JSON.
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

// refused returns the response to an error of a Defaulter or a Validator. An API error keeps its
// code, reason and details; any other error is 403 Forbidden.
func refused(err error) Response {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return statusResponse(status.Status())
	}
	return Denied(err.Error())
}

// statusResponse returns a response that denies an operation with a status.
func statusResponse(status metav1.Status) Response {
	return Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
