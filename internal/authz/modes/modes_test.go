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

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/reload"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noRoles stands in for RBAC.
type noRoles struct{}

func (noRoles) AuthorizerName() string { return "rbac" }
func (noRoles) Authorize(context.Context, *authz.Attributes) (authz.Decision, string, error) {
	return authz.NoOpinion, "RBAC: nothing", nil
}

// noNodes stands in for the authorizer of nodes.
type noNodes struct{}

func (noNodes) AuthorizerName() string { return "node" }
func (noNodes) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.User.Name == "system:node:n" {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// TestNode looks at the mode Node, which is one of the default modes.
func TestNode(t *testing.T) {
	for _, c := range []struct {
		what string
		s    Options
		want bool
	}{
		{"default", Options{}, true},
		{"both", Options{Modes: []string{"RBAC", "Node"}}, true},
		{"without", Options{Modes: []string{"RBAC"}}, false},
		{"file", Options{ConfigFile: file(t, "f", head+"authorizers: [{type: Node, name: node}]\n")}, true},
		{"file without", Options{ConfigFile: file(t, "f", head+"authorizers: [{type: RBAC, name: rbac}]\n")}, false},
	} {
		chain := open(t, c.s)
		d, _, err := chain.Authorize(t.Context(), &authz.Attributes{User: &authn.User{Name: "system:node:n"}})
		if (d == authz.Allow) != c.want || chain.Node() != c.want || err != nil {
			t.Errorf("%s: decision %v, Node() %t, %v, want allowed %t", c.what, d, chain.Node(), err, c.want)
		}
	}
}

func open(t *testing.T, s Options) *Chain {
	t.Helper()
	c, err := Open(s, noNodes{}, noRoles{}, slog.New(slog.DiscardHandler))
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

func jane(verb string) *authz.Attributes {
	return &authz.Attributes{
		User: &authn.User{Name: "jane", Groups: []string{"devs"}}, ResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: "pods", Namespace: "x",
	}
}

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"

func TestRefusedSettings(t *testing.T) {
	good := kubeconfig(t, "https://127.0.0.1:1")
	for _, c := range []struct {
		what string
		s    Options
		want string
	}{
		{"abac", Options{Modes: []string{"ABAC"}}, `authorization mode "ABAC" is not supported`},
		{"unknown", Options{Modes: []string{"rbac"}}, `Unsupported value: "rbac"`},
		{"empty", Options{Modes: []string{""}}, `Required value`},
		{"twice", Options{Modes: []string{"RBAC", "RBAC"}}, `Options.Access.Modes has "RBAC" twice`},
		{"no file", Options{Modes: []string{"Webhook"}}, "WebhookConfigFile is not set"},
		{"no mode", Options{WebhookConfigFile: good}, "add Webhook to Modes"},
		{"version", Options{Modes: []string{"Webhook"}, WebhookConfigFile: good, WebhookVersion: "v2"}, `Unsupported value: "v2"`},
		{"missing kubeconfig", Options{Modes: []string{"Webhook"}, WebhookConfigFile: "/nowhere/at/all"}, "no such file"},
		{"empty kubeconfig", Options{Modes: []string{"Webhook"}, WebhookConfigFile: file(t, "k", "")}, "no configuration has been provided"},
		{"both", Options{Modes: []string{"RBAC"}, ConfigFile: "x"}, "Options.Access.ConfigFile is set together with Modes"},
		{"missing file", Options{ConfigFile: "/nowhere/at/all"}, "no such file"},
		{"empty file", Options{ConfigFile: file(t, "f", "")}, "is empty"},
		{"other kind", Options{ConfigFile: file(t, "f", "apiVersion: v1\nkind: Pod\n")}, "no kind"},
		{"unknown field", Options{ConfigFile: file(t, "f", head+"authorizer: []\n")}, "unknown field"},
		{"no authorizers", Options{ConfigFile: file(t, "f", head+"authorizers: []\n")}, "at least one authorization mode"},
		{"abac in file", Options{ConfigFile: file(t, "f", head+"authorizers: [{type: ABAC, name: abac}]\n")}, `"ABAC" is not supported`},
		{"bad condition", Options{ConfigFile: file(t, "f", head+fmt.Sprintf(webhookYAML, good, "NoOpinion", "request.nonsense"))}, "undefined field"},
	} {
		if _, err := Open(c.s, noNodes{}, noRoles{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
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

// TestWebhook calls a webhook whose response depends on the verb.
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
	lenient := open(t, Options{ConfigFile: file(t, "f", head+fmt.Sprintf(webhookYAML, k, "NoOpinion", `request.user == "jane"`))})
	strict := open(t, Options{ConfigFile: file(t, "f", head+fmt.Sprintf(webhookYAML, k, "Deny", `request.resourceAttributes.namespace == "x"`))})
	old := open(t, Options{Modes: []string{"Webhook", "AlwaysAllow"}, WebhookConfigFile: k})

	for _, c := range []struct {
		what   string
		by     *Chain
		a      *authz.Attributes
		want   authz.Decision
		reason string
		err    string
	}{
		{"yes", lenient, jane("allow"), authz.Allow, "because", ""},
		{"no", lenient, jane("deny"), authz.Deny, "because", ""},
		{"nothing", lenient, jane("get"), authz.NoOpinion, "outside: because\nrbac: RBAC: nothing", ""},
		{"error", lenient, jane("fail"), authz.NoOpinion, "rbac: RBAC: nothing", "418"},
		{"no JSON", lenient, jane("nonsense"), authz.NoOpinion, "rbac: RBAC: nothing", "did not return a review"},
		{"error, strict", strict, jane("fail"), authz.Deny, "", "418"},
		{"condition fails, strict", strict, &authz.Attributes{User: &authn.User{Name: "jane"}, Path: "/x", Verb: "allow"}, authz.Deny, "", "cel evaluation error"},
		{"condition says no", lenient, &authz.Attributes{User: &authn.User{Name: "joe"}, Path: "/x", Verb: "allow"}, authz.NoOpinion, "rbac: RBAC: nothing", ""},
		{"error, then another user", old, jane("fail"), authz.Allow, "", ""},
		{"anonymous users have no roles", old, &authz.Attributes{User: &authn.User{Name: authn.Anonymous, Groups: []string{authn.Unauthenticated}}, Path: "/x", Verb: "get"}, authz.NoOpinion, "default: because", ""},
	} {
		d, reason, err := c.by.Authorize(t.Context(), c.a)
		if d != c.want || reason != c.reason || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %q, %v; want %v, %q, %s", c.what, d, reason, err, c.want, c.reason, c.err)
		}
	}
	before := asked.Load()
	if d, _, _ := lenient.Authorize(t.Context(), jane("allow")); d != authz.Allow || asked.Load() != before {
		t.Errorf("%v after %d more requests, want a cached result", d, asked.Load()-before)
	}
	a := jane("list")
	a.Fields = fields.ParseSelectorOrDie("metadata.name=a").Requirements()
	a.Labels, _ = labels.SelectorFromSet(labels.Set{"b": "c"}).Requirements()
	if _, _, err := old.Authorize(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want := `authorization.k8s.io/v1beta1 {"group":["devs"],"resourceAttributes":{"namespace":"x","verb":"list","version":"v1","resource":"pods","fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["a"]}]},"labelSelector":{"requirements":[{"key":"b","operator":"In","values":["c"]}]}},"user":"jane"}`
	if got := *last.Load(); got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
	if _, incomplete, err := lenient.RulesFor(t.Context(), jane("get").User, "x"); !incomplete || err == nil {
		t.Errorf("the rules of a webhook are complete: incomplete %v, %v", incomplete, err)
	}
}

// TestReload changes the file of a chain that watches it.
func TestReload(t *testing.T) {
	path := file(t, "f", head+"authorizers: [{type: RBAC, name: rbac}]\n")
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Options{ConfigFile: path})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Watch(ctx) }()
		decide := func() authz.Decision {
			time.Sleep(reload.Every + time.Second)
			synctest.Wait()
			d, _, _ := c.Authorize(t.Context(), jane("get"))
			return d
		}
		for _, step := range []struct {
			content string
			want    authz.Decision
		}{
			{head + "authorizers: [{type: AlwaysAllow, name: all}]\n", authz.Allow},
			{"nonsense", authz.Allow},
			{"", authz.Allow},
			{head + "authorizers: [{type: RBAC, name: rbac}]\n", authz.NoOpinion},
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
