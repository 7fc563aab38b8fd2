package clients

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestControllerRuntimeWebhooks checks that the server calls webhooks that a manager of
// controller-runtime serves for a custom resource.
func TestControllerRuntimeWebhooks(t *testing.T) {
	config := start(t)
	dir, ca := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:       server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr.GetWebhookServer().Register("/mutate", &webhook.Admission{Handler: admission.HandlerFunc(labelled)})
	mgr.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(judged)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) registrationv1.WebhookClientConfig {
		url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + path
		return registrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	rules := []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.OperationAll},
		Rule:       registrationv1.Rule{APIGroups: []string{widget("", 0).GroupVersionKind().Group}, APIVersions: []string{"*"}, Resources: []string{"*"}},
	}}
	none, versions := registrationv1.SideEffectClassNone, []string{"v1"}
	for _, o := range []client.Object{
		&registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Webhooks: []registrationv1.MutatingWebhook{
			{Name: "m.example.com", ClientConfig: at("/mutate"), Rules: rules, SideEffects: &none, AdmissionReviewVersions: versions}}},
		&registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []registrationv1.ValidatingWebhook{
			{Name: "v.example.com", ClientConfig: at("/validate"), Rules: rules, SideEffects: &none, AdmissionReviewVersions: versions}}},
	} {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}

	w := widget("w", 1)
	for err = c.Create(ctx, w); apierrors.IsInternalError(err) && strings.Contains(err.Error(), "connection refused"); err = c.Create(ctx, w) {
		// The manager may not listen yet.
	}
	if err != nil || w.GetLabels()["by"] != "webhook" {
		t.Fatalf("got %v, %v", w.GetLabels(), err)
	}
	err = c.Create(ctx, widget("refused", 1))
	if want := `admission webhook "v.example.com" denied the request: not this name`; !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := c.Delete(ctx, w); err == nil || !strings.Contains(err.Error(), "stays") {
		t.Errorf("a webhook that keeps objects: %v", err)
	}
}

// labelled is a defaulter that adds a label.
func labelled(_ context.Context, r admission.Request) admission.Response {
	if len(r.Object.Raw) == 0 {
		return admission.Allowed("")
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(r.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	obj.SetLabels(map[string]string{"by": "webhook"})
	changed, err := json.Marshal(obj)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(r.Object.Raw, changed)
}

// judged is a validator that rejects a name, and all deletes.
func judged(_ context.Context, r admission.Request) admission.Response {
	switch {
	case r.Operation == "DELETE":
		return admission.Errored(http.StatusConflict, errors.New(r.Name+" stays"))
	case r.Name == "refused":
		return admission.Denied("not this name")
	}
	return admission.Allowed("")
}

// certificate creates a certificate for this machine, in a directory as controller-runtime expects
// it.
func certificate(t *testing.T) (dir string, ca []byte) {
	t.Helper()
	dir = t.TempDir()
	ca, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), ca, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, ca
}
