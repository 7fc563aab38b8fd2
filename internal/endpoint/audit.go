package endpoint

import (
	"bytes"
	"strings"

	"github.com/kapok-dev/kapok/internal/authz"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// audit begins the audit record of a request whose user is authenticated.
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

// auditStranger records a request that failed to authenticate: it has a single event, at the
// response.
func (c *call) auditStranger() {
	if c.h.opts.Audit == nil {
		return
	}
	c.record = c.h.opts.Audit.Begin(c.r, c.attributes(), c.w.Header().Get("Audit-Id"), c.begun)
	c.record.Unauthenticated(c.r)
	c.w.started = c.record.Started
}

// auditDecision records the decision of the authorizer and its reason.
func (c *call) auditDecision(d authz.Decision, reason string) {
	if c.record == nil {
		return
	}
	verdict := "forbid"
	if d == authz.Allow {
		verdict = "allow"
	}
	c.record.Annotate("authorization.k8s.io/decision", verdict)
	c.record.Annotate("authorization.k8s.io/reason", reason)
}

// auditDeprecated records that the version of the request is deprecated, also in the metrics.
func (c *call) auditDeprecated() {
	if c.version.Warning == "" {
		return
	}
	c.record.Annotate("k8s.io/deprecated", "true")
	c.h.metrics.retired.WithLabelValues(c.info.Group, c.info.Version, c.info.Resource, c.info.Subresource, removedIn(c.version.Warning)).Set(1)
}

// removedIn returns the release that a warning names, "" if it names none.
func removedIn(warning string) string {
	_, release, _ := strings.Cut(warning, "unavailable in v")
	release, _, _ = strings.Cut(release, "+")
	return release
}

// auditOptions records the body of a deletion.
func (c *call) auditOptions(options *metav1.DeleteOptions) {
	if c.record == nil {
		return
	}
	if obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(options); err == nil {
		obj["apiVersion"], obj["kind"] = metav1.GroupName+"/"+runtime.APIVersionInternal, "DeleteOptions" // as Kubernetes writes it
		c.record.RequestObject(obj)
	}
}

// transcript returns an output for the response as it is recorded, in JSON. It returns nil if the
// response is not recorded, or is sent in JSON as well: then [call.answer] records what it sends.
func (c *call) transcript(m media) *output {
	if m.encoding == asJSON || !c.record.WantsResponse() {
		return nil
	}
	m.encoding = asJSON
	out := c.output(0, m)
	out.record = c.record
	return out
}

// keep records a transcript. If the response could not be rendered, its error is recorded instead,
// as the response that is sent.
func (o *output) keep(err error) {
	if err == nil {
		o.record.ResponseObject(bytes.Clone(o.buf))
	}
	o.release()
}
