package corpus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

const registration = "/apis/admissionregistration.k8s.io/v1/"

// hooks are the admission webhooks of a script: one HTTPS server, with a path for each. It owns
// goroutines from the first webhook until close.
type hooks struct {
	server *httptest.Server // nil before the first webhook

	mu      sync.Mutex
	answers map[string]hookAnswer
	asked   map[string][]any // reviews by name, oldest first
}

// A hookAnswer is the scripted response of a webhook: the response without its constant parts, or
// something else.
type hookAnswer struct {
	APIVersion string
	Kind       string
	Response   map[string]any // nil allows; null is a review without a response
	Patch      []any          // a JSON patch for the response
	Code       int            // status code instead of a review
	Body       string         // body instead of a review
}

// stepHook sets the response of a webhook. {NAME.url} is its URL, {NAME.ca} its authority in
// base64.
func (s *session) stepHook(input string, p parameters) error {
	answer := hookAnswer{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview", Response: map[string]any{"allowed": true}}
	if err := yaml.UnmarshalStrict([]byte(input), &answer); err != nil {
		return err
	}
	s.hooks.set(p.name, answer)
	s.kept[p.name] = s.hooks.address(p.name)
	return nil
}

func (h *hooks) set(name string, answer hookAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		h.answers, h.asked = map[string]hookAnswer{}, map[string][]any{}
		h.server = httptest.NewUnstartedServer(h)
		h.server.Config.ErrorLog = log.New(io.Discard, "", 0) // drops errors of handshakes that tests provoke
		h.server.StartTLS()
	}
	h.answers[name] = answer
	delete(h.asked, name)
}

func (h *hooks) address(name string) map[string]any {
	return map[string]any{"url": h.server.URL + "/" + name, "ca": base64.StdEncoding.EncodeToString(authorityOf(h.server))}
}

func (h *hooks) close() {
	if h.server != nil {
		h.server.CloseClientConnections()
		h.server.Close()
	}
}

// ServeHTTP implements http.Handler.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request map[string]any `json:"request"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	full, err := decodeJSON(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	h.mu.Lock()
	answer, known := h.answers[name]
	if known {
		h.asked[name] = append(h.asked[name], full)
	}
	h.mu.Unlock()
	if !known {
		http.NotFound(w, r)
		return
	}
	answer.write(w, review.Request)
}

func (a hookAnswer) write(w http.ResponseWriter, request map[string]any) {
	if a.Code != 0 || a.Body != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(max(a.Code, http.StatusOK))
		io.WriteString(w, a.Body)
		return
	}
	review := map[string]any{"apiVersion": a.APIVersion, "kind": a.Kind}
	if a.Response != nil {
		response := map[string]any{"uid": request["uid"]}
		for key, value := range a.Response {
			response[key] = value
		}
		if a.Patch != nil {
			patch, _ := json.Marshal(a.Patch)
			response["patch"], response["patchType"] = patch, "JSONPatch"
		}
		review["response"] = response
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(review)
}

// stepAsked prints the reviews sent to a webhook since its response was set or this was last
// printed.
func (s *session) stepAsked(p parameters) (string, error) {
	s.hooks.mu.Lock()
	asked := s.hooks.asked[p.name]
	delete(s.hooks.asked, p.name)
	s.hooks.mu.Unlock()
	if len(asked) == 0 {
		return "nothing\n", nil
	}
	var b strings.Builder
	for i, review := range asked {
		if i > 0 {
			b.WriteString("--\n")
		}
		printValue(&b, s.n.value(review, p.managed), p.show)
	}
	return b.String(), nil
}

// stepConfigured returns when earlier writes of configurations are in effect. The server processes
// them in order, and so it is enough to wait for the effect of one more. The probes create objects
// in the namespace default.
func (s *session) stepConfigured(ctx context.Context) error {
	const marker = "corpus-marker"
	answer := hookAnswer{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview", Response: map[string]any{
		"allowed": false, "status": map[string]any{"code": http.StatusTeapot},
	}}
	s.hooks.set(marker, answer)
	at := s.hooks.address(marker)
	for _, plural := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		s.marks++
		label := fmt.Sprintf("mark-%d", s.marks)
		config := fmt.Sprintf(`{"metadata": {"name": "zz-%s-%s"}, "webhooks": [{"name": "marker.corpus.example.com", "clientConfig": {"url": %q, "caBundle": %q},
			"admissionReviewVersions": ["v1"], "sideEffects": "None", "objectSelector": {"matchLabels": {"corpus-mark": %q}},
			"rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}]}`, s.ns, label, at["url"], at["ca"], label)
		a, err := s.ask(ctx, "POST", registration+plural, config)
		if err != nil || a.code != http.StatusCreated {
			return fmt.Errorf("make the marker: %v %s", err, a.body)
		}
		probe := fmt.Sprintf(`{"metadata": {"name": "corpus-mark", "labels": {"corpus-mark": %q}}}`, label)
		err = s.poll(ctx, "the marker webhook is not called", func() (bool, error) {
			a, err := s.ask(ctx, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", probe)
			return err == nil && a.code == http.StatusTeapot, err
		})
		if err != nil {
			return err
		}
		if _, err := s.ask(ctx, "DELETE", registration+plural+"/zz-"+s.ns+"-"+label, ""); err != nil {
			return err
		}
	}
	s.hooks.mu.Lock()
	clear(s.hooks.asked) // reviews of the probes
	s.hooks.mu.Unlock()
	return nil
}

// noteConfiguration records a configuration that a request created, for its deletion.
func (s *session) noteConfiguration(r *request, a *answer) {
	if r.method != "POST" || a.code != http.StatusCreated || !strings.HasPrefix(r.path, registration) || strings.Contains(r.path, "dryRun") {
		return
	}
	var made struct{ Metadata struct{ Name string } }
	if v, err := a.decode(); err == nil && convert(v, &made) == nil {
		if path := r.path + "/" + made.Metadata.Name; !slices.Contains(s.configurations, path) {
			s.configurations = append(s.configurations, path)
		}
	}
}

// unconfigure deletes the configurations that were created.
func (s *session) unconfigure(ctx context.Context) error {
	for _, path := range s.configurations {
		if _, err := s.ask(ctx, "DELETE", path, ""); err != nil {
			return err
		}
	}
	s.configurations = nil
	return nil
}
