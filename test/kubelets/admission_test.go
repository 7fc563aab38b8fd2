package kubelets

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/remotecommand"
)

// A hook is an admission webhook for connections.
type hook struct {
	answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

	mu       sync.Mutex
	requests []*admissionv1.AdmissionRequest
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.requests = append(h.requests, review.Request)
	h.mu.Unlock()
	review.Response = h.answer(review.Request)
	review.Response.UID = review.Request.UID
	json.NewEncoder(w).Encode(&review)
}

// admit registers a mutating webhook for connections to pods and nodes.
func (c *cluster) admit(t *testing.T, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *hook {
	t.Helper()
	h := &hook{answer: answer}
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	none, fail := registrationv1.SideEffectClassNone, registrationv1.Fail
	_, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "connections"},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name: "connections.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: registrationv1.WebhookClientConfig{
				URL: &s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
			},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Connect},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/*", "nodes/*"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func patched(patch string) *admissionv1.AdmissionResponse {
	kind := admissionv1.PatchTypeJSONPatch
	return &admissionv1.AdmissionResponse{Allowed: true, PatchType: &kind, Patch: []byte(patch)}
}

// TestMutation changes the parameters of connections: the kubelet gets what admission returns.
func TestMutation(t *testing.T) {
	c := start(t)
	c.pod("two", "n", "a", "b")
	h := c.admit(t, func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		switch {
		case r.SubResource == "exec":
			return patched(`[{"op":"replace","path":"/command","value":["echo","instead"]},{"op":"remove","path":"/stdin"}]`)
		case r.SubResource == "attach":
			return patched(`[{"op":"add","path":"/container","value":"b"}]`)
		case r.Resource.Resource == "nodes":
			return patched(`[{"op":"replace","path":"/path","value":"/healthz"}]`)
		}
		return patched(`[{"op":"replace","path":"/kind","value":"ConfigMap"}]`)
	})
	var out bytes.Buffer
	by := c.executors("exec", &corev1.PodExecOptions{Stdout: true, Stdin: true, Command: []string{"rm"}})["SPDY"]
	if err := by.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if want := "/exec/default/web/app [\"echo\" \"instead\"]\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if got := c.kubelet.last().URL.RawQuery; got != "command=echo&command=instead&output=1" {
		t.Errorf("the kubelet got %s", got)
	}
	r := h.requests[0]
	var object map[string]any
	if err := json.Unmarshal(r.Object.Raw, &object); err != nil {
		t.Fatal(err)
	}
	if r.Operation != admissionv1.Connect || r.Name != "web" || r.Namespace != "default" || r.Kind.Kind != "PodExecOptions" || r.SubResource != "exec" ||
		object["kind"] != "PodExecOptions" || object["stdin"] != true || r.Options.Raw != nil || r.OldObject.Raw != nil {
		t.Errorf("the webhook got %+v with %v", r, object)
	}
	c.do("GET", podPath+"two/attach?stdout=true", "Connection", "Upgrade", "Upgrade", "websocket")
	if got := c.kubelet.last().URL.Path; got != "/attach/default/two/b" {
		t.Errorf("the kubelet got %s", got)
	}
	c.expect(200, "GET /healthz", "GET", "/api/v1/nodes/n/proxy/metrics")
	before := c.kubelet.count()
	c.expect(500, "(v1.ConfigMap) to (core.PodPortForwardOptions): unknown conversion", "POST", podPath+"web/portforward", upgrade...)
	if c.kubelet.count() != before {
		t.Error("a request of another kind has reached the kubelet")
	}
	calls := len(h.requests)
	c.expect(200, "first", "GET", podPath+"web/log") // is read, not connected to
	if len(h.requests) != calls {
		t.Error("a log was admitted")
	}
}

// TestPolicies lets policies change and reject parameters.
func TestPolicies(t *testing.T) {
	c := start(t)
	match := &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{registrationv1.Connect},
		Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/exec"}},
	}}}}
	admission := c.client.AdmissionregistrationV1()
	_, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shells"},
		Spec: registrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: match,
			Validations:      []registrationv1.Validation{{Expression: "!('sh' in object.command)", Message: "no shells"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), &registrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "shells"},
		Spec:       registrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "shells", ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.wait("the policy to be in force", func() bool {
		answer, text := c.do("POST", podPath+"web/exec?command=sh", upgrade...)
		return answer.StatusCode == http.StatusUnprocessableEntity && strings.Contains(text, "no shells")
	})
	before := c.kubelet.count()
	c.expect(422, "no shells", "GET", podPath+"web/exec?command=sh&command=-c", upgrade...)
	if c.kubelet.count() != before {
		t.Error("a rejected request has reached the kubelet")
	}
	c.do("POST", podPath+"web/exec?command=ls", upgrade...)
	if c.kubelet.count() == before {
		t.Error("another request has not reached the kubelet")
	}
}

// TestAudit checks the events of connections.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "log")
	const all = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"RequestResponse","resources":[{"group":"","resources":["pods/exec","pods/log","nodes/proxy"]}]}]}`
	if err := os.WriteFile(policy, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, func(o *kapok.Options) { o.Audit = kapok.AuditOptions{PolicyFile: policy, LogPath: log} })
	c.pod("waiting", "", "app")
	c.admit(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, AuditAnnotations: map[string]string{"reason": "debugging"}}
	})
	by := c.executors("exec", &corev1.PodExecOptions{Stdout: true, Command: []string{"ls"}})["SPDY"]
	if err := by.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &bytes.Buffer{}}); err != nil {
		t.Fatal(err)
	}
	c.expect(200, "first", "GET", podPath+"web/log")
	c.expect(400, "does not have a host", "POST", podPath+"waiting/exec", upgrade...)
	c.stop()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string // of the requests, in order
	events := map[string][]string{}
	annotated := ""
	for line := range bytes.Lines(data) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		code := ""
		if e.ResponseStatus != nil {
			code = http.StatusText(int(e.ResponseStatus.Code))
		}
		id := string(e.AuditID)
		if events[id] == nil {
			ids = append(ids, id)
		}
		events[id] = append(events[id], strings.Join([]string{e.Verb, e.ObjectRef.Name, e.ObjectRef.Subresource, string(e.Stage), code}, " "))
		annotated = max(annotated, e.Annotations["connections.example.com/reason"])
	}
	var got []string
	for _, id := range ids {
		got = append(got, events[id]...)
	}
	want := []string{
		"create web exec RequestReceived ", "create web exec ResponseStarted Switching Protocols", "create web exec ResponseComplete Switching Protocols",
		"get web log RequestReceived ", "get web log ResponseStarted OK", "get web log ResponseComplete OK",
		"create waiting exec RequestReceived ", "create waiting exec ResponseStarted Bad Request", "create waiting exec ResponseComplete Bad Request",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the events are\n%s", strings.Join(got, "\n"))
	}
	if annotated != "debugging" {
		t.Error("the annotation of the webhook is missing")
	}
}
