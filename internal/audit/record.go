package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	upstream "k8s.io/apiserver/pkg/audit"
	"sigs.k8s.io/yaml"
)

// maxUserAgent is the maximum recorded length of a User-Agent, as in Kubernetes.
const maxUserAgent = 1024

// A Record is the audit record of one request. It belongs to the goroutine that serves the request.
// On a nil Record, which means that the request is not recorded, all methods do nothing.
type Record struct {
	auditor *Auditor
	rule    upstream.RequestAuditConfig
	event   auditv1.Event
	started bool // the stage ResponseStarted has been reached
	// stranger means that the user is unknown: the request has a single event, at the response.
	stranger bool
}

func newEvent(r *http.Request, by *authz.Attributes, level audit.Level, id types.UID, received time.Time) auditv1.Event {
	e := auditv1.Event{
		TypeMeta:                 metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event"},
		Level:                    auditv1.Level(level),
		AuditID:                  id,
		RequestURI:               r.URL.RequestURI(),
		Verb:                     by.Verb,
		UserAgent:                r.UserAgent(),
		RequestReceivedTimestamp: metav1.NewMicroTime(received),
	}
	if len(e.UserAgent) > maxUserAgent {
		e.UserAgent = e.UserAgent[:maxUserAgent] + "...TRUNCATED"
	}
	for _, ip := range net.SourceIPs(r) {
		e.SourceIPs = append(e.SourceIPs, ip.String())
	}
	if by.User != nil {
		e.User = userInfo(by.User)
	}
	if by.ResourceRequest {
		e.ObjectRef = &auditv1.ObjectReference{
			Namespace: by.Namespace, Name: by.Name, Resource: by.Resource, Subresource: by.Subresource,
			APIGroup: by.APIGroup, APIVersion: by.APIVersion,
		}
	}
	return e
}

func userInfo(u *authn.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for key, values := range u.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// Received is the stage in which nothing is known but the request.
func (r *Record) Received() {
	if r != nil {
		r.stage(auditv1.StageRequestReceived)
	}
}

// Impersonates says as whom the user acts, and by which permission, if it is one of those that are
// bound to conditions.
func (r *Record) Impersonates(u *authn.User, constraint string) {
	if r == nil {
		return
	}
	info := userInfo(u)
	r.event.ImpersonatedUser = &info
	if constraint != "" {
		r.event.AuthenticationMetadata = &auditv1.AuthenticationMetadata{ImpersonationConstraint: constraint}
	}
}

// Annotate adds an annotation. It does not replace an existing one.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	if _, said := r.event.Annotations[key]; said {
		return
	}
	if r.event.Annotations == nil {
		r.event.Annotations = map[string]string{}
	}
	r.event.Annotations[key] = value
}

// WantsRequest and WantsResponse report whether the bodies of the request and of the response are
// to be recorded.
func (r *Record) WantsRequest() bool {
	return r != nil && (r.rule.Level == audit.LevelRequest || r.rule.Level == audit.LevelRequestResponse)
}

// WantsResponse is like WantsRequest.
func (r *Record) WantsResponse() bool { return r != nil && r.rule.Level == audit.LevelRequestResponse }

// RequestObject records the name of the object in the request, and the object if the policy
// includes it.
func (r *Record) RequestObject(obj map[string]any) {
	if r == nil {
		return
	}
	r.refer(obj)
	if !r.WantsRequest() {
		return
	}
	if r.rule.OmitManagedFields {
		obj = withoutManagedFields(obj)
	}
	if data, err := json.Marshal(obj); err == nil {
		r.event.RequestObject = unknown(data)
	}
}

// refer completes the object reference of the path with the object's metadata.
func (r *Record) refer(obj map[string]any) {
	meta, _ := obj["metadata"].(map[string]any)
	ref := r.event.ObjectRef
	if meta == nil || ref == nil {
		return
	}
	fill := func(field *string, key string) {
		if text, ok := meta[key].(string); ok && *field == "" {
			*field = text
		}
	}
	also := *ref // the one before belongs to the stages before
	fill(&also.Namespace, "namespace")
	fill(&also.Name, "name")
	fill((*string)(&also.UID), "uid")
	fill(&also.ResourceVersion, "resourceVersion")
	r.event.ObjectRef = &also
}

// RequestPatch records a patch in JSON or YAML if the policy includes it.
func (r *Record) RequestPatch(patch []byte) {
	if !r.WantsRequest() {
		return
	}
	if !json.Valid(patch) {
		converted, err := yaml.YAMLToJSON(patch)
		if err != nil {
			return
		}
		patch = converted
	}
	r.event.RequestObject = unknown(slices.Clone(patch))
}

// ResponseStatus writes down a Status that the client gets.
func (r *Record) ResponseStatus(s *metav1.Status) {
	if r == nil {
		return
	}
	r.event.ResponseStatus = &metav1.Status{Status: s.Status, Message: s.Message, Reason: s.Reason, Details: s.Details, Code: s.Code}
}

// ResponseObject records the response body, in JSON, if the policy includes it.
func (r *Record) ResponseObject(data []byte) {
	if !r.WantsResponse() || !json.Valid(data) {
		return
	}
	if r.rule.OmitManagedFields {
		var obj map[string]any
		if json.Unmarshal(data, &obj) == nil {
			if shorter, err := json.Marshal(withoutManagedFields(obj)); err == nil {
				data = shorter
			}
		}
	}
	r.event.ResponseObject = unknown(data)
}

// Started records that the header of a long-running response has been sent.
func (r *Record) Started(code int) {
	if r == nil || r.started {
		return
	}
	r.started = true
	r.code(code)
	r.stage(auditv1.StageResponseStarted)
}

// Complete ends the record of a request that was answered; with a code of 0 it was not, as the
// client had gone.
func (r *Record) Complete(code int) {
	if r == nil || r.stranger {
		return
	}
	if code == 0 {
		r.event.ResponseStatus = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
	} else {
		r.code(code)
	}
	r.stage(auditv1.StageResponseComplete)
}

// Panicked ends the record of a request whose handler panicked.
func (r *Record) Panicked(reason any) {
	if r == nil {
		return
	}
	r.event.ResponseStatus = &metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", reason),
	}
	r.stage(auditv1.StagePanic)
}

// Unauthenticated records how a request tried to authenticate.
func (r *Record) Unauthenticated(req *http.Request) {
	if r == nil {
		return
	}
	r.stranger = true
	var tried []string
	if _, _, ok := req.BasicAuth(); ok {
		tried = append(tried, "basic")
	}
	if parts := strings.Split(strings.TrimSpace(req.Header.Get("Authorization")), " "); len(parts) > 1 && strings.EqualFold(parts[0], "bearer") {
		tried = append(tried, "bearer")
	}
	if strings.TrimSpace(req.URL.Query().Get("access_token")) != "" {
		tried = append(tried, "access_token")
	}
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		tried = append(tried, "x509")
	}
	text := "Authentication failed, no credentials provided"
	if len(tried) > 0 {
		text = "Authentication failed, attempted: " + strings.Join(tried, ", ")
	}
	r.event.ResponseStatus = &metav1.Status{Message: text}
}

func (r *Record) code(code int) {
	status := metav1.Status{}
	if r.event.ResponseStatus != nil {
		status = *r.event.ResponseStatus
	}
	status.Code = int32(code)
	r.event.ResponseStatus = &status
}

func (r *Record) stage(s auditv1.Stage) {
	if slices.Contains(r.rule.OmitStages, audit.Stage(s)) {
		return
	}
	e := r.event
	e.Stage, e.StageTimestamp = s, e.RequestReceivedTimestamp
	if s != auditv1.StageRequestReceived {
		e.StageTimestamp = metav1.NowMicro()
	}
	e.Annotations = maps.Clone(e.Annotations) // others may still be added
	r.auditor.emit(e)
}

func unknown(data []byte) *runtime.Unknown {
	return &runtime.Unknown{Raw: data, ContentType: runtime.ContentTypeJSON}
}

// withoutManagedFields returns an object, a list or a table without the managed fields in it.
func withoutManagedFields(obj map[string]any) map[string]any {
	without := maps.Clone(obj)
	if meta, ok := obj["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		delete(meta, "managedFields")
		without["metadata"] = meta
	}
	each := func(key string, change func(map[string]any) map[string]any) {
		list, ok := obj[key].([]any)
		if !ok {
			return
		}
		changed := make([]any, len(list))
		for i, item := range list {
			if m, ok := item.(map[string]any); ok {
				item = change(m)
			}
			changed[i] = item
		}
		without[key] = changed
	}
	if _, listed := obj["items"]; listed {
		each("items", withoutManagedFields)
	}
	if obj["kind"] == "Table" {
		each("rows", func(row map[string]any) map[string]any {
			row = maps.Clone(row)
			if o, ok := row["object"].(map[string]any); ok {
				row["object"] = withoutManagedFields(o)
			}
			return row
		})
	}
	return without
}
