package webhook

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
)

// MultiMutatingHandler calls handlers in order, each with the object as it was sent, until one
// denies the request. It concatenates their patches, which must be in Response.Patches and must not
// depend on each other.
func MultiMutatingHandler(handlers ...Handler) Handler { return multi(handlers) }

// MultiValidatingHandler calls handlers in order until one denies the request.
func MultiValidatingHandler(handlers ...Handler) Handler { return multi(handlers) }

type multi []Handler

func (m multi) Handle(ctx context.Context, req Request) Response {
	all := Allowed("")
	for _, h := range m {
		resp := h.Handle(ctx, req)
		if !resp.Allowed {
			return resp.prepend(all.Warnings)
		}
		if resp.PatchType != nil && *resp.PatchType != admissionv1.PatchTypeJSONPatch {
			return Errored(http.StatusInternalServerError, fmt.Errorf("patch type %s, want %s", *resp.PatchType, admissionv1.PatchTypeJSONPatch))
		}
		all.Patches = append(all.Patches, resp.Patches...)
		all.Warnings = append(all.Warnings, resp.Warnings...)
	}
	return all
}

// prepend puts earlier warnings before those of a response.
func (r Response) prepend(warnings []string) Response {
	r.Warnings = append(warnings, r.Warnings...)
	return r
}
