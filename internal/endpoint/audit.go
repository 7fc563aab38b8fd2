package endpoint

import (
	"bytes"
	"net/http"

	"github.com/kapok-dev/kapok/internal/auth"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// audit begins to write down the request of somebody who is known.
func (c *call) audit() {
	if c.h.opts.Audit == nil {
		return
	}
	c.record = c.h.opts.Audit.Begin(c.r, c.attributes(), c.w.Header().Get("Audit-Id"), c.begun)
	c.record.Received()
	if c.record != nil && c.info.longRunning() {
		c.w.started = c.record.Started
	}
}

// auditStranger writes down that somebody could not log in: once, when he is told.
func (c *call) auditStranger() {
	if c.h.opts.Audit == nil {
		return
	}
	c.record = c.h.opts.Audit.Begin(c.r, c.attributes(), c.w.Header().Get("Audit-Id"), c.begun)
	c.record.Unauthenticated(c.r)
	c.w.started = c.record.Started
}

// auditDecision notes what was decided on the request, and why.
func (c *call) auditDecision(d auth.Decision, reason string) {
	if c.record == nil {
		return
	}
	verdict := "forbid"
	if d == auth.Allow {
		verdict = "allow"
	}
	c.record.Annotate("authorization.k8s.io/decision", verdict)
	c.record.Annotate("authorization.k8s.io/reason", reason)
}

// auditDeprecated notes that the version of the request is deprecated.
func (c *call) auditDeprecated() {
	if c.version.Warning != "" {
		c.record.Annotate("k8s.io/deprecated", "true")
	}
}

// auditOptions writes down the body of a deletion.
func (c *call) auditOptions(options *metav1.DeleteOptions) {
	if c.record == nil {
		return
	}
	if obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(options); err == nil {
		obj["apiVersion"], obj["kind"] = metav1.GroupName+"/"+runtime.APIVersionInternal, "DeleteOptions" // as Kubernetes writes it
		c.record.RequestObject(obj)
	}
}

// auditStatus writes down a Status that the client gets.
func (c *call) auditStatus(status *metav1.Status) {
	if c.record == nil {
		return
	}
	c.record.ResponseStatus(status)
	c.auditAnswer(media{encoding: asJSON}, func(c *call, m media) { c.answerTyped(int(status.Code), m, status, "v1", "Status") })
}

// auditAnswer writes an answer down, if that is wanted: it is given once more, as JSON, to a client who only reads it.
func (c *call) auditAnswer(m media, answer func(*call, media)) {
	if !c.record.WantsResponse() {
		return
	}
	client := &reader{header: http.Header{}}
	again := *c
	again.record = nil
	again.w = recorder{ResponseWriter: client}
	again.r = c.r.Clone(c.r.Context())
	again.r.Header.Del("Accept-Encoding")
	m.encoding, m.pretty = asJSON, false
	answer(&again, m)
	c.record.ResponseObject(bytes.TrimSpace(client.Bytes()))
}

// reader is a client who reads an answer and nothing else.
type reader struct {
	header http.Header
	bytes.Buffer
}

func (r *reader) Header() http.Header { return r.header }
func (r *reader) WriteHeader(int)     {}
