package server

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/transport"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// A hookServer serves admission webhooks at https://hooks.test/NAME over in-memory connections.
type hookServer struct {
	*transport.Listener
	ca     []byte
	server *http.Server
	done   chan struct{}

	mu      sync.Mutex
	answers map[string]func(http.ResponseWriter, *admissionv1.AdmissionReview)
	asked   []string // OPERATION resource/subresource namespace/name by user
}

func startHooks(t testing.TB) *hookServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"hooks.test"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	h := &hookServer{
		Listener: transport.NewListener(), ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), done: make(chan struct{}),
		answers: map[string]func(http.ResponseWriter, *admissionv1.AdmissionReview){},
	}
	h.server = &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	secure := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	go func() {
		defer close(h.done)
		h.server.Serve(tls.NewListener(h.Listener, secure))
	}()
	return h
}

// stop waits for handlers that are still running.
func (h *hookServer) stop() {
	h.server.Shutdown(context.Background())
	<-h.done
}

// ServeHTTP implements http.Handler.
func (h *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := review.Request
	review.Response = &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true}
	h.mu.Lock()
	h.asked = append(h.asked, fmt.Sprintf("%s %s %s/%s by %s", q.Operation, strings.TrimSuffix(q.Resource.Resource+"/"+q.SubResource, "/"), q.Namespace, q.Name, q.UserInfo.Username))
	answer := h.answers[strings.TrimPrefix(r.URL.Path, "/")]
	h.mu.Unlock()
	review.Request = nil
	if answer != nil {
		answer(w, &review)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(review)
}

// calls returns the calls since the last time.
func (h *hookServer) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.asked
	h.asked = nil
	return calls
}

// validating returns a webhook that is called for config maps, unless there are other rules.
func (h *hookServer) validating(name string, rules ...registrationv1.RuleWithOperations) registrationv1.ValidatingWebhook {
	if len(rules) == 0 {
		rules = []registrationv1.RuleWithOperations{ruleFor(registrationv1.OperationAll, "configmaps")}
	}
	return registrationv1.ValidatingWebhook{
		Name: name + ".hooks.test", ClientConfig: registrationv1.WebhookClientConfig{URL: new("https://hooks.test/" + name), CABundle: h.ca},
		Rules: rules, AdmissionReviewVersions: []string{"v1"}, SideEffects: new(registrationv1.SideEffectClassNone),
	}
}

func ruleFor(op registrationv1.OperationType, resources ...string) registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{op},
		Rule:       registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources},
	}
}

// dial implements WebhookOptions.Dial.
func (h *hookServer) dial(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx) }

// inHookBubble runs a test with a server and webhooks, in virtual time.
func inHookBubble(t *testing.T, test func(t *testing.T, h *hookServer, client *kubernetes.Clientset)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := startHooks(t)
		s, err := Start(t.Context(), Options{Webhooks: WebhookOptions{Dial: h.dial}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.stop()
		defer s.Stop()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		test(t, h, client)
	})
}

func configure(t testing.TB, client kubernetes.Interface, hooks ...registrationv1.ValidatingWebhook) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{GenerateName: "hooks-"}, Webhooks: hooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func createMap(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{})
	return err
}

// TestWebhookTimes checks that validating webhooks are called in parallel, each with its own
// timeout.
func TestWebhookTimes(t *testing.T) {
	inHookBubble(t, func(t *testing.T, h *hookServer, client *kubernetes.Clientset) {
		slow := func(d time.Duration) func(http.ResponseWriter, *admissionv1.AdmissionReview) {
			return func(http.ResponseWriter, *admissionv1.AdmissionReview) { time.Sleep(d) }
		}
		h.answers["one"], h.answers["two"], h.answers["late"] = slow(2*time.Second), slow(2*time.Second), slow(4*time.Second)
		one, two, late := h.validating("one"), h.validating("two"), h.validating("late")
		late.TimeoutSeconds, late.FailurePolicy = new(int32(3)), new(registrationv1.Ignore)
		configure(t, client, one, two)
		began := time.Now()
		if err := createMap(t.Context(), client); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("two webhooks that take 2 s have taken %v", took)
		}

		configure(t, client, late)
		began = time.Now()
		if err := createMap(t.Context(), client); err != nil {
			t.Errorf("a webhook that times out with failure policy Ignore: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a webhook with a timeout of 3 s has taken %v", took)
		}

		late.FailurePolicy = new(registrationv1.Fail)
		configure(t, client, late)
		err := createMap(t.Context(), client)
		want := `Internal error occurred: failed calling webhook "late.hooks.test": failed to call webhook: Post "https://hooks.test/late?timeout=3s": context deadline exceeded`
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

// TestWebhookNext checks that a configuration is in effect for the next request after its creation,
// and no longer for the next one after its deletion.
func TestWebhookNext(t *testing.T) {
	inHookBubble(t, func(t *testing.T, h *hookServer, client *kubernetes.Clientset) {
		refuse := func(_ http.ResponseWriter, r *admissionv1.AdmissionReview) {
			r.Response.Allowed = false
			r.Response.Result = &metav1.Status{Message: "no", Code: http.StatusForbidden}
		}
		h.answers["no"] = refuse
		configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		for range 20 {
			if err := createMap(t.Context(), client); err != nil {
				t.Fatalf("without a webhook: %v", err)
			}
			configure(t, client, h.validating("no"))
			err := createMap(t.Context(), client)
			if err == nil || !apierrors.IsForbidden(err) && err.Error() != `admission webhook "no.hooks.test" denied the request: no` {
				t.Fatalf("with a webhook that denies: %v", err)
			}
			if err := configurations.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatalf("a webhook is called for its own configuration: %v", err)
			}
		}
	})
}

// TestWebhookAnswers checks that an invalid response is an error with its reason, and that nothing
// is written.
func TestWebhookAnswers(t *testing.T) {
	inHookBubble(t, func(t *testing.T, h *hookServer, client *kubernetes.Clientset) {
		configure(t, client, h.validating("v"))
		huge := strings.Repeat("x", 1<<20)
		for name, c := range map[string]struct {
			answer func(http.ResponseWriter, *admissionv1.AdmissionReview)
			want   string
		}{
			"another request": {func(_ http.ResponseWriter, r *admissionv1.AdmissionReview) { r.Response.UID = "x" }, "received invalid webhook response: expected response.uid="},
			"redirect in a circle": {func(w http.ResponseWriter, _ *admissionv1.AdmissionReview) {
				w.Header().Set("Location", "/v")
				w.WriteHeader(http.StatusTemporaryRedirect)
			}, "failed to call webhook: Post \"/v\": stopped after 10 redirects"},
			"huge": {func(w http.ResponseWriter, _ *admissionv1.AdmissionReview) {
				w.Header().Set("Content-Type", "application/json")
				for range 65 {
					io.WriteString(w, huge)
				}
			}, "the response is larger than 67108864 bytes"},
			"broken off": {func(http.ResponseWriter, *admissionv1.AdmissionReview) { panic(http.ErrAbortHandler) }, "failed to call webhook: Post \"https://hooks.test/v?timeout=10s\": EOF"},
			"a code that HTTP has not": {func(_ http.ResponseWriter, r *admissionv1.AdmissionReview) {
				r.Response.Allowed, r.Response.Result = false, &metav1.Status{Message: "no", Code: 1000}
			}, `admission webhook "v.hooks.test" denied the request: no`},
			"a patch": {func(_ http.ResponseWriter, r *admissionv1.AdmissionReview) { r.Response.Patch = []byte("[]") }, "validating webhook may not return response.patch"},
		} {
			h.mu.Lock()
			h.answers["v"] = c.answer
			h.mu.Unlock()
			err := createMap(t.Context(), client)
			if err == nil || !strings.Contains(err.Error(), c.want) || !apierrors.IsInternalError(err) {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
		}
		if list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("%v were written, %v", list.Items, err)
		}
	})
}

// TestNothingPastWebhooks checks that a webhook that denies everything is called for each kind of
// write.
func TestNothingPastWebhooks(t *testing.T) {
	inHookBubble(t, func(t *testing.T, h *hookServer, client *kubernetes.Clientset) {
		ctx, core := t.Context(), client.CoreV1().RESTClient()
		pod := `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
		deployment := `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
		const namespace, deployments = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default/deployments"
		for path, body := range map[string]string{namespace + "/pods": pod, deployments: deployment} {
			if err := core.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error(); err != nil {
				t.Fatal(err)
			}
		}
		refuse := func(_ http.ResponseWriter, r *admissionv1.AdmissionReview) { r.Response.Allowed = false }
		h.mu.Lock()
		h.answers["all"] = refuse
		h.mu.Unlock()
		configure(t, client, h.validating("all", ruleFor(registrationv1.OperationAll, "*/*")))
		h.calls()
		const merge, apply = string(types.MergePatchType), string(types.ApplyYAMLPatchType)
		for _, c := range []struct{ method, path, contentType, body, asked string }{
			{"POST", namespace + "/configmaps", "", `{"metadata":{"generateName":"x-"}}`, "CREATE configmaps"},
			{"POST", namespace + "/configmaps?dryRun=All", "", `{"metadata":{"name":"x"}}`, "CREATE configmaps"},
			{"PATCH", namespace + "/configmaps/x?fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, "CREATE configmaps"},
			{"PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/x", "", `{"metadata":{"name":"x"}}`, "CREATE leases"},
			{"PATCH", namespace + "/pods/p", merge, `{"metadata":{"labels":{"a":"b"}}}`, "UPDATE pods"},
			{"PATCH", namespace + "/pods/p/status", merge, `{"status":{"phase":"Failed"}}`, "UPDATE pods/status"},
			{"PATCH", namespace + "/pods/p/resize", merge, `{"metadata":{"labels":{"a":"b"}}}`, "UPDATE pods/resize"},
			{"PATCH", namespace + "/pods/p/ephemeralcontainers", merge, `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`, "UPDATE pods/ephemeralcontainers"},
			{"POST", namespace + "/pods/p/binding", "", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, "CREATE pods/binding"},
			{"POST", namespace + "/bindings", "", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, "CREATE bindings"},
			{"POST", namespace + "/pods/p/eviction", "", `{"metadata":{"name":"p"}}`, "CREATE pods/eviction"},
			{"DELETE", namespace + "/pods/p", "", ``, "DELETE pods"},
			{"DELETE", namespace + "/pods", "", ``, "DELETE pods"},
			{"PATCH", deployments + "/d/scale", merge, `{"spec":{"replicas":3}}`, "UPDATE deployments/scale"},
			{"PUT", "/api/v1/namespaces/default/finalize", "", `{"metadata":{"name":"default"}}`, "UPDATE namespaces/finalize"},
			{"DELETE", "/api/v1/namespaces/kube-node-lease", "", ``, "DELETE namespaces"},
		} {
			path, query, _ := strings.Cut(c.path, "?")
			r := core.Verb(c.method).AbsPath(path).SetHeader("Content-Type", cmp.Or(c.contentType, "application/json"))
			if key, value, ok := strings.Cut(query, "="); ok {
				r = r.Param(key, value)
			}
			if c.body != "" {
				r = r.Body([]byte(c.body))
			}
			err := r.Do(ctx).Error()
			asked := h.calls()
			if err == nil || !strings.Contains(err.Error(), `admission webhook "all.hooks.test" denied the request`) {
				t.Errorf("%s %s: %v", c.method, c.path, err)
			}
			if !slices.ContainsFunc(asked, func(a string) bool { return strings.HasPrefix(a, c.asked+" ") }) {
				t.Errorf("%s %s: asked about %q, want %s", c.method, c.path, asked, c.asked)
			}
		}
	})
}

// TestWebhooksOfControllers checks that webhooks are called for deletions by the server itself,
// with the users of Kubernetes' controllers, and can deny them.
func TestWebhooksOfControllers(t *testing.T) {
	inHookBubble(t, func(t *testing.T, h *hookServer, client *kubernetes.Clientset) {
		core, ctx := client.CoreV1(), t.Context()
		if _, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		owner, err := core.ConfigMaps("n").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}}
		if _, err := core.Secrets("n").Create(ctx, owned, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := core.Secrets("n").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		refuses := true
		h.answers["d"] = func(_ http.ResponseWriter, r *admissionv1.AdmissionReview) { r.Response.Allowed = !refuses }
		configure(t, client, h.validating("d", ruleFor(registrationv1.Delete, "secrets")))
		if err := core.ConfigMaps("n").Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := core.Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := h.calls()
		for _, want := range []string{
			"DELETE secrets n/owned by system:serviceaccount:kube-system:generic-garbage-collector",
			"DELETE secrets n/ by system:serviceaccount:kube-system:namespace-controller",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("calls %q do not include %s", got, want)
			}
		}
		if list, err := core.Secrets("n").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
			t.Errorf("secrets that the webhook protects: %v, %v", list, err)
		}
		h.mu.Lock()
		refuses = false
		h.mu.Unlock()
		time.Sleep(2 * time.Minute) // until after the last retry
		if _, err := core.Namespaces().Get(ctx, "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace still exists: %v", err)
		}
	})
}

// TestWebhookDown checks that a webhook that cannot be reached, or has the certificate of another
// host, fails the requests that match it, and no others.
func TestWebhookDown(t *testing.T) {
	inHookBubble(t, func(t *testing.T, h *hookServer, client *kubernetes.Clientset) {
		down := h.validating("down")
		down.ClientConfig.URL = new("https://other.test/down")
		configure(t, client, down)
		err := createMap(t.Context(), client)
		if want := "x509: certificate is valid for hooks.test, not other.test"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		h.Listener.Close()
		_, err = client.CoreV1().ConfigMaps("default").Patch(t.Context(), "kube-root-ca.crt", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the webhook is called for an object that does not exist: %v", err)
		}
		if err := createMap(t.Context(), client); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v", err)
		}
	})
}

// BenchmarkWebhook measures a create (dry run) without webhooks, with one that does not match, and
// with one that does.
func BenchmarkWebhook(b *testing.B) {
	for _, name := range []string{"none", "another", "asked"} {
		b.Run("hook="+name, func(b *testing.B) {
			h := startHooks(b)
			defer h.stop()
			s, err := Start(b.Context(), Options{Webhooks: WebhookOptions{Dial: h.dial}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Stop()
			client, err := kubernetes.NewForConfig(s.Config())
			if err != nil {
				b.Fatal(err)
			}
			switch name {
			case "another":
				configure(b, client, h.validating("v", ruleFor(registrationv1.OperationAll, "secrets")))
			case "asked":
				configure(b, client, h.validating("v"))
			}
			c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.CoreV1().ConfigMaps("default").Create(b.Context(), c, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestWebhooksInside checks that a service that the program itself implements is called without
// TLS, and that Stop waits for its handler.
func TestWebhooksInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, left := make(chan string, 1), make(chan struct{})
		s, err := Start(t.Context(), Options{Webhooks: WebhookOptions{Services: func(namespace, name string) http.Handler {
			if namespace != "here" {
				return nil
			}
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				asked <- name + " " + r.Host + r.URL.Path
				<-r.Context().Done()
				time.Sleep(time.Minute)
				close(left)
			})
		}}})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		at := func(namespace string) registrationv1.ValidatingWebhook {
			w := (&hookServer{}).validating(namespace)
			w.ClientConfig = registrationv1.WebhookClientConfig{Service: &registrationv1.ServiceReference{Namespace: namespace, Name: "hook", Path: new("/v")}, CABundle: []byte("none")}
			w.TimeoutSeconds = new(int32(30))
			return w
		}
		configure(t, client, at("elsewhere"))
		if err := createMap(t.Context(), client); err == nil || !strings.Contains(err.Error(), "unable to load root certificates") {
			t.Errorf("another service: %v", err)
		}
		configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		if err := configurations.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		configure(t, client, at("here"))
		failed := make(chan error, 1)
		go func() { failed <- createMap(t.Context(), client) }()
		if got, want := <-asked, "hook hook.here.svc:443/v"; got != want {
			t.Errorf("called %s, want %s", got, want)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		select {
		case <-left:
		default:
			t.Error("Stop returned before the handler")
		}
		if err := <-failed; err == nil {
			t.Error("a write succeeded although its webhook did not respond")
		}
	})
}

// TestConversionDials checks that conversion webhooks are dialled like admission webhooks.
func TestConversionDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Options{Webhooks: WebhookOptions{Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			return nil, errors.New("no server at " + address)
		}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		rest := client.CoreV1().RESTClient()
		post := func(path, body string) error {
			return rest.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
		}
		version := `{"name":"v%d","served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object"}}}`
		err = post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"foos.example.com"},"spec":{
			"group":"example.com","scope":"Cluster","names":{"plural":"foos","kind":"Foo"},"versions":[`+fmt.Sprintf(version, 1, true)+","+fmt.Sprintf(version, 2, false)+`],
			"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://hooks.test/convert"}}}}}`)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		err = post("/apis/example.com/v2/foos", `{"apiVersion":"example.com/v2","kind":"Foo","metadata":{"name":"a"}}`)
		if err == nil || !strings.Contains(err.Error(), `Post "https://hooks.test/convert?timeout=30s": no server at hooks.test:443`) {
			t.Errorf("got %v", err)
		}
	})
}
