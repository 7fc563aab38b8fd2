package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// statusOf converts any error to the Status of the response. Errors without a Status become a 500
// without a reason, as in Kubernetes.
func (c *call) statusOf(err error) *metav1.Status {
	// A connection to another program that times out is an error of that, which names the address.
	elsewhere := (*net.OpError)(nil)
	if (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) && !errors.As(err, &elsewhere) {
		text := "request did not complete within the allotted timeout"
		if !c.info.reads() {
			text = "request did not complete within requested timeout - " + err.Error()
		}
		err = apierrors.NewTimeoutError(text, 0)
	}
	var known interface{ Status() metav1.Status }
	if !errors.As(err, &known) {
		c.h.log.Info("request failed with an error without a Status",
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
	if status.Code > 999 { // from a webhook; HTTP has no such codes
		status.Code = http.StatusInternalServerError
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}

// fail responds with an error.
func (c *call) fail(err error) {
	status := c.statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	c.answerStatus(int(status.Code), status)
}

// answerStatus responds with a Status in the requested media type, or in JSON if that is not
// supported.
func (c *call) answerStatus(code int, status *metav1.Status) {
	c.record.ResponseStatus(status)
	m, err := negotiate(c.r, plainMedia())
	if err != nil {
		m.encoding = asYAML // not recorded as it is sent: rawJSON indents
	}
	if t := c.transcript(m); t != nil {
		t.keep(t.typed(status, "v1", "Status"))
	}
	if err != nil {
		c.rawJSON(code, status)
		return
	}
	out := c.answer(code, m)
	out.close(out.typed(status, "v1", "Status"))
}

// rawJSON responds with indented JSON, whatever the client accepts.
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

// notFound responds with 404 to an unknown path. Informers of kinds that do not exist yet depend on
// it not being a Status.
func (c *call) notFound() {
	http.NotFound(&c.w, c.r)
}

// unrouted is the error for a path or method that a built-in group version does not have.
func unrouted(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

func noSuchPath() error { return unrouted(http.StatusNotFound, "404: Page Not Found") }

func methodNotAllowed() error {
	return unrouted(http.StatusMethodNotAllowed, "405: Method Not Allowed")
}

// internalError responds in plain text to requests that cannot be parsed.
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
