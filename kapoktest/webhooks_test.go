package kapoktest_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	ctrl "github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/webhook"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// serveWidgets sets the color of widgets, and rejects large ones.
func serveWidgets(hooks *http.ServeMux) {
	hooks.Handle("/mutate", &webhook.Webhook{Handler: webhook.HandlerFunc(func(context.Context, webhook.Request) webhook.Response {
		return webhook.Patched("", webhook.JSONPatchOp{Operation: "add", Path: "/metadata/labels", Value: map[string]string{"color": "red"}})
	})})
	hooks.Handle("/validate", &webhook.Webhook{Handler: webhook.HandlerFunc(func(_ context.Context, r webhook.Request) webhook.Response {
		var w struct {
			Spec struct{ Size int }
		}
		if err := json.Unmarshal(r.Object.Raw, &w); err != nil {
			return webhook.Errored(http.StatusBadRequest, err)
		}
		if w.Spec.Size > 9 {
			return webhook.Denied("too large")
		}
		return webhook.Allowed("")
	})})
}

func sized(name string, size int64) *unstructured.Unstructured {
	w := widget(name)
	w.Object["spec"] = map[string]any{"size": size}
	return w
}

// TestWebhooks checks that the server calls the handlers of a test, as the operator's manifests
// configure.
func TestWebhooks(t *testing.T) {
	test := func(t testing.TB, env *kapoktest.Env) {
		serveWidgets(env.WebhookMux())
		w := widget("a")
		env.Create(w)
		if w.GetLabels()["color"] != "red" {
			t.Errorf("not mutated: %v", w.Object)
		}
		err := env.Client().Create(t.Context(), sized("b", 10))
		if want := `admission webhook "vwidget.kb.io" denied the request: too large`; !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		before := widget("before") // created before the webhooks
		if env.Get(before); before.GetLabels() != nil {
			t.Errorf("an earlier object is mutated: %v", before.Object)
		}
	}
	options := []kapoktest.Option{kapoktest.CRDs("testdata/crd"), kapoktest.Webhooks("testdata/webhook"),
		kapoktest.YAML("{apiVersion: example.com/v1, kind: Widget, metadata: {name: before}, spec: {size: 100}}")}
	t.Run("time=real", func(t *testing.T) { test(t, kapoktest.Start(t, options...)) })
	t.Run("time=virtual", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { test(t, env) }, options...)
	})
	t.Run("many times", func(t *testing.T) { kapoktest.Explore(t, 3, kapoktest.Faults{}, test, options...) })
}

// TestWebhooksInMetrics checks that the time of webhooks does not count for the service level of
// the server, as in Kubernetes.
func TestWebhooksInMetrics(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		slow := &webhook.Webhook{Handler: webhook.HandlerFunc(func(context.Context, webhook.Request) webhook.Response {
			time.Sleep(3 * time.Second)
			return webhook.Allowed("")
		})}
		env.WebhookMux().Handle("/mutate", slow)
		env.WebhookMux().Handle("/validate", slow)
		env.Create(widget("a"))
		config := env.Config()
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Get(config.Host + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`apiserver_request_duration_seconds_sum{component="apiserver",dry_run="",group="example.com",resource="widgets",scope="resource",subresource="",verb="POST",version="v1"} 6`,
			`apiserver_request_sli_duration_seconds_sum{component="apiserver",group="example.com",resource="widgets",scope="resource",subresource="",verb="POST",version="v1"} 0`,
		} {
			if !strings.Contains(string(text), want+"\n") {
				t.Errorf("metrics lack %s", want)
			}
		}
	}, kapoktest.CRDs("testdata/crd"), kapoktest.Webhooks("testdata/webhook"))
}

// TestWebhookFailures checks that errors about webhooks are Kubernetes', and that the failure
// policy applies.
func TestWebhookFailures(t *testing.T) {
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	late := func(_ http.ResponseWriter, r *http.Request) { // returns when the caller has given up
		select {
		case <-r.Context().Done():
		case <-time.After(time.Hour):
		}
	}
	stubborn := func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }
	for _, tc := range []struct {
		name    string
		handler http.Handler
		want    string
		takes   time.Duration
	}{
		{"panics", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			`failed to call webhook: Post "https://webhook-service.system.svc:443/validate?timeout=5s": EOF`, 0},
		{"late", http.HandlerFunc(late), `Post "https://webhook-service.system.svc:443/validate?timeout=5s": context deadline exceeded`, 5 * time.Second},
		{"late, and does not notice", http.HandlerFunc(stubborn), "context deadline exceeded", 5 * time.Second},
		{"another path", http.NotFoundHandler(), "the server could not find the requested resource", 0},
		{"an error", answer(500, "oh"), "an error on the server", 0},
		{"no review", answer(200, "oh"), "couldn't get version/kind", 0},
		{"no such service", nil, `Post "https://webhook-service.system.svc:443/validate?timeout=5s": service "webhook-service" not found`, 0},
	} {
		for _, policy := range []registrationv1.FailurePolicyType{registrationv1.Fail, registrationv1.Ignore} {
			t.Run(fmt.Sprintf("%s/policy=%s", tc.name, policy), func(t *testing.T) {
				t.Parallel()
				manifests, err := os.ReadFile("testdata/webhook/manifests.yaml")
				if err != nil {
					t.Fatal(err)
				}
				_, validating, _ := strings.Cut(string(manifests), "---")
				file := write(t, strings.ReplaceAll(validating, "failurePolicy: Fail", "failurePolicy: "+string(policy)))
				install := kapoktest.Webhooks(file)
				if tc.handler == nil {
					install = kapoktest.Objects(file)
				}
				kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
					if tc.handler != nil {
						env.WebhookMux().Handle("/", tc.handler)
					}
					begin := time.Now()
					err := env.Client().Create(t.Context(), widget("a"))
					if took := time.Since(begin); took != tc.takes {
						t.Errorf("took %v, want %v", took, tc.takes)
					}
					switch {
					case policy == registrationv1.Ignore && err != nil:
						t.Error(err)
					case policy == registrationv1.Fail && (!apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "vwidget.kb.io": `) ||
						!strings.Contains(err.Error(), tc.want)):
						t.Errorf("got  %v\nwant %s", err, tc.want)
					}
				}, kapoktest.CRDs("testdata/crd"), install)
			})
		}
	}
}

// write writes a manifest.
func write(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestWebhooksOfMany has several operators in one test with webhooks at the same path.
func TestWebhooksOfMany(t *testing.T) {
	const configuration = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: %[1]s.example.com
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: %[1]s-system, name: hooks, path: /validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  sideEffects: None
`
	// The second configuration is not in a manifest, and yet its requests reach the process.
	env := kapoktest.Start(t, kapoktest.Webhooks(write(t, fmt.Sprintf(configuration, "one"))), kapoktest.YAML(fmt.Sprintf(configuration, "two")))
	refuses := func(name string) http.Handler {
		return &webhook.Webhook{Handler: webhook.HandlerFunc(func(_ context.Context, r webhook.Request) webhook.Response {
			return webhook.ValidationResponse(r.Name != name, "by "+name)
		})}
	}
	env.WebhookMux().Handle("/validate", refuses("one"))
	env.WebhookMux().Handle("hooks.two-system.svc/validate", refuses("two"))
	for _, name := range []string{"one", "two"} {
		want := fmt.Sprintf(`admission webhook "%s.example.com" denied the request: by %s`, name, name)
		if err := env.Client().Create(t.Context(), configMap(name)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	env.Create(configMap("fine"))
}

// A Pot has a size: in v1, the hub, a number; in v1alpha1 a string.
type (
	Pot struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Size              int `json:"size"`
	}
	PotV1alpha1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Size              string `json:"size"`
	}
)

func (*Pot) Hub() {}

func (p *Pot) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

func (p *PotV1alpha1) DeepCopyObject() runtime.Object {
	c := *p
	c.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &c
}

func (p *PotV1alpha1) ConvertTo(hub webhook.Hub) (err error) {
	to := hub.(*Pot)
	to.ObjectMeta = p.ObjectMeta
	to.Size, err = strconv.Atoi(p.Size)
	return err
}

func (p *PotV1alpha1) ConvertFrom(hub webhook.Hub) error {
	from := hub.(*Pot)
	p.ObjectMeta = from.ObjectMeta
	p.Size = strconv.Itoa(from.Size)
	return nil
}

const potDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pots.example.com}
spec:
  group: example.com
  names: {kind: Pot, plural: pots}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}
  - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {size: {type: string}}}}}
`

const potConversion = `
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {caBundle: Cg==, service: {namespace: system, name: webhook-service, path: /convert}}
`

func potScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for version, p := range map[string]runtime.Object{"v1": &Pot{}, "v1alpha1": &PotV1alpha1{}} {
		gv := schema.GroupVersion{Group: "example.com", Version: version}
		scheme.AddKnownTypeWithName(gv.WithKind("Pot"), p)
		metav1.AddToGroupVersion(scheme, gv)
	}
	return scheme
}

// TestConversions checks the conversion of a kind with two versions in memory: if its definition, a
// patch or its Go types configure it.
func TestConversions(t *testing.T) {
	patch := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pots.example.com}\nspec:" + potConversion
	for _, tc := range []struct {
		name, definition, hooks string
	}{
		{"definition", potDefinition + potConversion, ""},
		{"patch", potDefinition, patch},
		{"Go types", potDefinition, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// As generated by kubebuilder: the patches are below the definitions.
			dir := t.TempDir()
			files := map[string]string{
				"bases/pots.yaml": tc.definition, "patches/pots.yaml": tc.hooks,
				"kustomization.yaml": "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization}",
			}
			for name, text := range files {
				file := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			var paths []string
			if tc.hooks != "" {
				paths = append(paths, filepath.Join(dir, "patches"))
			}
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				mgr, err := ctrl.New(env.Config(), ctrl.Options{Scheme: potScheme(), WebhookServer: webhook.NewServer(webhook.Options{Port: -1, WebhookMux: env.WebhookMux()})})
				if err == nil {
					err = webhook.NewWebhookManagedBy(mgr, &Pot{}).Complete()
				}
				if err != nil {
					t.Fatal(err)
				}
				env.Create(&PotV1alpha1{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Size: "7"})
				p := &Pot{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
				if env.Get(p); p.Size != 7 {
					t.Errorf("in v1 its size is %d", p.Size)
				}
				bad := &PotV1alpha1{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: "default"}, Size: "large"}
				if err := env.Client().Create(t.Context(), bad); err == nil || !strings.Contains(err.Error(), `parsing "large"`) {
					t.Errorf("what cannot be converted: %v", err)
				}
			}, kapoktest.Scheme(potScheme()), kapoktest.CRDs(dir), kapoktest.Webhooks(paths...))
		})
	}
}

// TestLateConversion checks that the server waits as long for a slow conversion webhook as
// Kubernetes, in virtual time.
func TestLateConversion(t *testing.T) {
	definition := write(t, potDefinition+potConversion)
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		env.WebhookMux().HandleFunc("/convert", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) })
		begin := time.Now()
		err := env.Client().Create(t.Context(), &PotV1alpha1{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Size: "7"})
		if err == nil || !strings.Contains(err.Error(), "conversion webhook for example.com/v1alpha1, Kind=Pot failed: ") || time.Since(begin) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	}, kapoktest.Scheme(potScheme()), kapoktest.CRDs(definition), kapoktest.Webhooks())
}

// TestWebhookOnSocket checks that outside of a bubble a webhook can be on a socket, with a
// certificate.
func TestWebhookOnSocket(t *testing.T) {
	mux := http.NewServeMux()
	serveWidgets(mux)
	hook := httptest.NewTLSServer(mux)
	defer hook.Close()
	env := kapoktest.Start(t, kapoktest.CRDs("testdata/crd"))
	none := registrationv1.SideEffectClassNone
	env.Create(&registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []registrationv1.ValidatingWebhook{{
		Name: "v.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: registrationv1.WebhookClientConfig{
			URL:      new(hook.URL + "/validate"),
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
		},
		Rules: []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{"*"},
			Rule: registrationv1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}},
	}}})
	env.Create(sized("a", 1))
	err := env.Client().Create(t.Context(), sized("b", 10))
	if want := `admission webhook "v.example.com" denied the request: too large`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWebhooksThatCannotBe(t *testing.T) {
	invalid := `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [7]}`
	for _, tc := range []struct {
		name, file, want string
	}{
		{"no file", "nowhere", "webhooks: stat nowhere"},
		{"no webhook", "testdata/webhook/service.yaml", "service.yaml: want at least one webhook configuration, found none"},
		{"no definition", write(t, potDefinition+potConversion), "conversion of pots.example.com: there is no such CustomResourceDefinition"},
		{"invalid", write(t, invalid), "create ValidatingWebhookConfiguration a: "},
	} {
		text := fails(t, func(t testing.TB) { kapoktest.Start(t, kapoktest.Webhooks(tc.file)) })
		if !strings.Contains(text, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, text, tc.want)
		}
	}
	if text := fails(t, func(t testing.TB) { kapoktest.Start(t).WebhookMux() }); !strings.Contains(text, "set the option Webhooks") {
		t.Errorf("without the option: %q", text)
	}
}

// TestWebhooksMadeLater checks that requests of a configuration that an operator creates at run
// time reach the process as long as it exists.
func TestWebhooksMadeLater(t *testing.T) {
	env := kapoktest.Start(t, kapoktest.Webhooks())
	env.WebhookMux().Handle("/", &webhook.Webhook{Handler: webhook.HandlerFunc(func(context.Context, webhook.Request) webhook.Response { return webhook.Denied("no") })})
	env.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "before"}})
	none := registrationv1.SideEffectClassNone
	c := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []registrationv1.ValidatingWebhook{{
		Name: "v.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: "mine", Name: "hooks"}},
		Rules: []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{"*"},
			Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"configmaps"}}}},
	}}}
	env.Create(c)
	if err := env.Client().Create(t.Context(), configMap("a")); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	env.Delete(c)
	env.Create(configMap("a"))
}
