package operators

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A server is a Kapok in memory, with clients.
type server struct {
	config *rest.Config
	client *http.Client
}

func start(t testing.TB) *server {
	t.Helper()
	// Samples name owners that do not exist.
	k, err := kapok.Start(t.Context(), kapok.Options{V1beta1CRDs: true, KeepGarbage: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &server{config: k.Config()}
	if s.client, err = rest.HTTPClientFor(s.config); err != nil {
		t.Fatal(err)
	}
	return s
}

// An answer is a response: an object, or an error with its Status.
type answer struct {
	object   tree
	warnings []string
	err      error
}

func (s *server) do(ctx context.Context, method, path string, body any) (a answer) {
	var send io.Reader
	if body != nil {
		raw, ok := body.([]byte)
		if !ok {
			var err error
			if raw, err = json.Marshal(body); err != nil {
				return answer{err: err}
			}
		}
		send = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.config.Host+path, send)
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "operators")
	response, err := s.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{err: err}
	}
	for _, header := range response.Header.Values("Warning") {
		_, quoted, _ := strings.Cut(strings.TrimPrefix(header, "299 "), " ")
		if warning, err := strconv.Unquote(quoted); err == nil {
			a.warnings = append(a.warnings, warning)
		}
	}
	if response.StatusCode >= 300 {
		status := metav1.Status{}
		if err := json.Unmarshal(text, &status); err != nil {
			a.err = fmt.Errorf("%s: %s", response.Status, text)
		} else {
			a.err = &apierrors.StatusError{ErrStatus: status}
		}
		return a
	}
	a.object, _ = decode(text).(tree)
	if a.object == nil {
		a.err = fmt.Errorf("no object: %s", text)
	}
	return a
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// establish creates definitions and waits until each is established. It returns those that the
// server rejects with their errors; conflicts of names are failures.
func (s *server) establish(t testing.TB, definitions []*definition) (refused map[*definition]error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	refused = map[*definition]error{}
	var mu sync.Mutex
	waiting := map[string]string{}
	parallel(len(definitions), func(i int) {
		d := definitions[i]
		path := definitionsPath
		if bytes.Contains(d.raw, []byte(`"apiVersion":"apiextensions.k8s.io/v1beta1"`)) {
			path = strings.Replace(path, "v1", "v1beta1", 1)
		}
		a := s.do(ctx, "POST", path, d.raw)
		mu.Lock()
		defer mu.Unlock()
		if a.err != nil {
			refused[d] = a.err
		} else {
			waiting[d.crd.Name] = "has no conditions"
		}
	})
	request, err := http.NewRequestWithContext(ctx, "GET", s.config.Host+definitionsPath+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := json.NewDecoder(response.Body)
	for len(waiting) > 0 {
		var event struct {
			Object apiextensionsv1.CustomResourceDefinition
		}
		if err := events.Decode(&event); err != nil {
			t.Fatalf("%d definitions are not established: %v (%v)", len(waiting), waiting, err)
		}
		name := event.Object.Name
		for _, c := range event.Object.Status.Conditions {
			switch {
			case c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue:
				delete(waiting, name)
			case c.Type == apiextensionsv1.Established && c.Reason == "InvalidCABundle" && hasInvalidCABundle(&event.Object):
				delete(waiting, name)
			case c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse:
				t.Errorf("names of %s are not accepted: %s", name, c.Message)
				delete(waiting, name)
			}
		}
	}
	return refused
}

// hasInvalidCABundle reports whether a definition names a webhook whose certificate cannot be
// verified. It is accepted, but never established.
func hasInvalidCABundle(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		return false
	}
	return !x509.NewCertPool().AppendCertsFromPEM(c.Webhook.ClientConfig.CABundle)
}

// path returns the path of a version's collection.
func (v *version) path() string {
	path := "/apis/" + v.gvk().GroupVersion().String()
	if v.crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		path += "/namespaces/default"
	}
	return path + "/" + v.crd.Spec.Names.Plural
}

// verdict formats an error for comparison: the causes of an invalid object can come in any order.
func verdict(err error) string {
	if err == nil {
		return "accepted"
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error()
	}
	s := status.Status()
	lines := []string{}
	if s.Details != nil && len(s.Details.Causes) > 0 {
		for _, cause := range s.Details.Causes {
			lines = append(lines, fmt.Sprintf("%s|%s|%s", cause.Type, cause.Field, cause.Message))
		}
		slices.Sort(lines)
		lines = append(lines, s.Details.Group, s.Details.Kind, s.Details.Name)
	} else {
		lines = append(lines, s.Message)
	}
	return fmt.Sprintf("%d %s\n  %s", s.Code, s.Reason, strings.Join(lines, "\n  "))
}

// query returns an escaped query of a request.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}
