package modes

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nobody stands for RBAC.
type nobody struct{}

func (nobody) AuthorizerName() string { return "rbac" }
func (nobody) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	return auth.NoOpinion, "RBAC: nothing", nil
}

func open(t *testing.T, s Settings) *Chain {
	t.Helper()
	c, err := Open(s, nobody{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func kubeconfig(t *testing.T, server string) string {
	return file(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: %s, insecure-skip-tls-verify: true}}]
users: [{name: a, user: {token: secret}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`, server))
}

func jane(verb string) *auth.Attributes {
	return &auth.Attributes{
		User: &auth.User{Name: "jane", Groups: []string{"devs"}}, ResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: "pods", Namespace: "x",
	}
}

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"

func TestRefusedSettings(t *testing.T) {
	good := kubeconfig(t, "https://127.0.0.1:1")
	for _, c := range []struct {
		what string
		s    Settings
		want string
	}{
		{"node", Settings{Modes: []string{"Node", "RBAC"}}, `authorization mode "Node" is not supported`},
		{"abac", Settings{Modes: []string{"ABAC"}}, `authorization mode "ABAC" is not supported`},
		{"unknown", Settings{Modes: []string{"rbac"}}, `Unsupported value: "rbac"`},
		{"empty", Settings{Modes: []string{""}}, `Required value`},
		{"twice", Settings{Modes: []string{"RBAC", "RBAC"}}, `"RBAC" is there twice`},
		{"no file", Settings{Modes: []string{"Webhook"}}, "needs a kubeconfig file"},
		{"no mode", Settings{WebhookFile: good}, "mode Webhook is not on"},
		{"version", Settings{Modes: []string{"Webhook"}, WebhookFile: good, WebhookVersion: "v2"}, `Unsupported value: "v2"`},
		{"missing kubeconfig", Settings{Modes: []string{"Webhook"}, WebhookFile: "/nowhere/at/all"}, "no such file"},
		{"empty kubeconfig", Settings{Modes: []string{"Webhook"}, WebhookFile: file(t, "k", "")}, "no configuration has been provided"},
		{"both", Settings{Modes: []string{"RBAC"}, File: "x"}, "said twice"},
		{"missing file", Settings{File: "/nowhere/at/all"}, "no such file"},
		{"empty file", Settings{File: file(t, "f", "")}, "is empty"},
		{"other kind", Settings{File: file(t, "f", "apiVersion: v1\nkind: Pod\n")}, "no kind"},
		{"unknown field", Settings{File: file(t, "f", head+"authorizer: []\n")}, "unknown field"},
		{"no authorizers", Settings{File: file(t, "f", head+"authorizers: []\n")}, "at least one authorization mode"},
		{"node in file", Settings{File: file(t, "f", head+"authorizers: [{type: Node, name: node}]\n")}, `"Node" is not supported`},
		{"bad condition", Settings{File: file(t, "f", head+fmt.Sprintf(webhookYAML, good, "NoOpinion", "request.nonsense"))}, "undefined field"},
	} {
		if _, err := Open(c.s, nobody{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.what, err, c.want)
		}
	}
}

const webhookYAML = `authorizers:
- type: Webhook
  name: outside
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %q}
    failurePolicy: %s
    authorizedTTL: 1m
    unauthorizedTTL: 1m
    matchConditions: [{expression: '%s'}]
- {type: RBAC, name: rbac}
`

// TestWebhook asks a server whose answer is in the verb.
func TestWebhook(t *testing.T) {
	var asked atomic.Int32
	var last atomic.Pointer[string]
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review struct {
			APIVersion, Kind string
			Spec             json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.Header.Get("Authorization") != "Bearer secret" || review.Kind != "SubjectAccessReview" {
			t.Errorf("got %+v, %v, %v", review, r.Header, err)
		}
		text := review.APIVersion + " " + string(review.Spec)
		last.Store(&text)
		switch {
		case strings.Contains(text, `"verb":"fail"`):
			w.WriteHeader(http.StatusTeapot)
		case strings.Contains(text, `"verb":"nonsense"`):
			fmt.Fprint(w, "{")
		default:
			fmt.Fprintf(w, `{"status":{"allowed":%v,"denied":%v,"reason":"because"}}`,
				strings.Contains(text, `"verb":"allow`), strings.Contains(text, `"verb":"deny`))
		}
	}))
	defer server.Close()
	k := kubeconfig(t, server.URL)
	lenient := open(t, Settings{File: file(t, "f", head+fmt.Sprintf(webhookYAML, k, "NoOpinion", `request.user == "jane"`))})
	strict := open(t, Settings{File: file(t, "f", head+fmt.Sprintf(webhookYAML, k, "Deny", `request.resourceAttributes.namespace == "x"`))})
	old := open(t, Settings{Modes: []string{"Webhook", "AlwaysAllow"}, WebhookFile: k})

	for _, c := range []struct {
		what   string
		by     *Chain
		a      *auth.Attributes
		want   auth.Decision
		reason string
		err    string
	}{
		{"yes", lenient, jane("allow"), auth.Allow, "because", ""},
		{"no", lenient, jane("deny"), auth.Deny, "because", ""},
		{"nothing", lenient, jane("get"), auth.NoOpinion, "outside: because\nrbac: RBAC: nothing", ""},
		{"error", lenient, jane("fail"), auth.NoOpinion, "rbac: RBAC: nothing", "418"},
		{"no JSON", lenient, jane("nonsense"), auth.NoOpinion, "rbac: RBAC: nothing", "does not answer with a review"},
		{"error, strict", strict, jane("fail"), auth.Deny, "", "418"},
		{"condition fails, strict", strict, &auth.Attributes{User: &auth.User{Name: "jane"}, Path: "/x", Verb: "allow"}, auth.Deny, "", "cel evaluation error"},
		{"condition says no", lenient, &auth.Attributes{User: &auth.User{Name: "joe"}, Path: "/x", Verb: "allow"}, auth.NoOpinion, "rbac: RBAC: nothing", ""},
		{"error, then somebody else", old, jane("fail"), auth.Allow, "", ""},
		{"strangers are nobody", old, &auth.Attributes{User: &auth.User{Name: auth.Anonymous, Groups: []string{auth.Unauthenticated}}, Path: "/x", Verb: "get"}, auth.NoOpinion, "default: because", ""},
	} {
		d, reason, err := c.by.Authorize(t.Context(), c.a)
		if d != c.want || reason != c.reason || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %q, %v; want %v, %q, %s", c.what, d, reason, err, c.want, c.reason, c.err)
		}
	}
	before := asked.Load()
	if d, _, _ := lenient.Authorize(t.Context(), jane("allow")); d != auth.Allow || asked.Load() != before {
		t.Errorf("%v, asked %d times more; want an answer that is remembered", d, asked.Load()-before)
	}
	a := jane("list")
	a.Fields = fields.ParseSelectorOrDie("metadata.name=a").Requirements()
	a.Labels, _ = labels.SelectorFromSet(labels.Set{"b": "c"}).Requirements()
	if _, _, err := old.Authorize(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want := `authorization.k8s.io/v1beta1 {"group":["devs"],"resourceAttributes":{"namespace":"x","verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["a"]}]},"labelSelector":{"requirements":[{"key":"b","operator":"In","values":["c"]}]}},"user":"jane"}`
	if got := *last.Load(); got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
	if _, incomplete, err := lenient.RulesFor(t.Context(), jane("get").User, "x"); !incomplete || err == nil {
		t.Errorf("the rules of a webhook are known: %v, %v", incomplete, err)
	}
}

// TestReload changes the file under a chain that watches it.
func TestReload(t *testing.T) {
	path := file(t, "f", head+"authorizers: [{type: RBAC, name: rbac}]\n")
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Settings{File: path})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Watch(ctx) }()
		decide := func() auth.Decision {
			time.Sleep(every + time.Second)
			synctest.Wait()
			d, _, _ := c.Authorize(t.Context(), jane("get"))
			return d
		}
		for _, step := range []struct {
			content string
			want    auth.Decision
		}{
			{head + "authorizers: [{type: AlwaysAllow, name: all}]\n", auth.Allow},
			{"nonsense", auth.Allow},
			{"", auth.Allow},
			{head + "authorizers: [{type: RBAC, name: rbac}]\n", auth.NoOpinion},
		} {
			if err := os.WriteFile(path, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := decide(); got != step.want {
				t.Errorf("%q: %v, want %v", step.content, got, step.want)
			}
		}
		stop()
		<-done
	})
}
