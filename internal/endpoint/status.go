package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// statusOf turns any error into the Status that a client gets. Errors that nobody
// has given one are 500 without a reason, as in Kubernetes.
func (c *call) statusOf(err error) *metav1.Status {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		text := "request did not complete within the allotted timeout"
		if !c.info.reads() {
			text = "request did not complete within requested timeout - " + err.Error()
		}
		err = apierrors.NewTimeoutError(text, 0)
	}
	var known interface{ Status() metav1.Status }
	if !errors.As(err, &known) {
		c.h.log.Info("request failed with an error that is no API error",
			"method", c.r.Method, "uri", c.r.RequestURI, "error", err)
		known = &plainError{http.StatusInternalServerError, metav1.StatusReasonUnknown, err.Error()}
	}
	status := known.Status()
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
		if status.Status == metav1.StatusSuccess {
			status.Code = http.StatusOK
		}
	}
	if status.Code > 999 { // a webhook says so; there are none in HTTP
		status.Code = http.StatusInternalServerError
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}

// fail answers with an error.
func (c *call) fail(err error) {
	status := c.statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	c.answerStatus(int(status.Code), status)
}

// answerStatus answers with a Status in the media type that the client wants. If
// it wants one that does not exist, it gets JSON all the same.
func (c *call) answerStatus(code int, status *metav1.Status) {
	c.auditStatus(status)
	media, err := negotiate(c.r, plainMedia())
	if err != nil {
		c.rawJSON(code, status)
		return
	}
	c.answerTyped(code, media, status, "v1", "Status")
}

// rawJSON answers with indented JSON, whatever the client accepts.
func (c *call) rawJSON(code int, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(&c.w, err.Error(), http.StatusInternalServerError)
		return
	}
	c.w.Header().Set("Content-Type", contentTypeJSON)
	c.w.WriteHeader(code)
	_, _ = c.w.Write(data)
}

// notFound is the answer to paths that nobody serves; informers of kinds that
// are not there yet rely on it being no Status.
func (c *call) notFound() {
	http.NotFound(&c.w, c.r)
}

// unrouted is the error for paths and methods that a built-in group version does
// not have.
func unrouted(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

func noSuchPath() error { return unrouted(http.StatusNotFound, "404: Page Not Found") }

func methodNotAllowed() error {
	return unrouted(http.StatusMethodNotAllowed, "405: Method Not Allowed")
}

// internalError answers in plain text, for requests that cannot be told apart.
func (c *call) internalError(err error) {
	text := fmt.Sprintf("Internal Server Error: %q: %v", c.r.RequestURI, err)
	http.Error(&c.w, strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text), http.StatusInternalServerError)
}

// plainError is an error whose Status has no details.
type plainError struct {
	code    int32
	reason  metav1.StatusReason
	message string
}

func (e *plainError) Error() string { return e.message }

func (e *plainError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: e.code, Reason: e.reason, Message: e.message}
}

func notAcceptable(message string) error {
	return &plainError{http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, message}
}

func unsupportedMediaType(supported []string) error {
	return &plainError{http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: " + strings.Join(supported, ", ")}
}
