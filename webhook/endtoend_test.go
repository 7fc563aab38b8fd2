package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// TestEndToEnd tests the whole path: configurations of admission webhooks and a definition with a
// conversion webhook, the server with its own certificates, and the API server that calls it.
func TestEndToEnd(t *testing.T) {
	t.Run("told", func(t *testing.T) { testEndToEnd(t, true) })
	t.Run("local", func(t *testing.T) { testEndToEnd(t, false) })
}

// testEndToEnd configures the webhook's address in the definition, either by Certificates or in
// advance.
func testEndToEnd(t *testing.T, tell bool) {
	w := newWriter(t, startKapok(t))
	listener := loopback(t)
	base := "https://" + listener.Addr().String()
	options := CertificateOptions{Hosts: []string{"127.0.0.1"}}
	if tell {
		install(t, w)
		options.URL = base
		options = everything(options)
	}
	certificates := SelfSigned(w, options)
	server := NewServer(Options{Listener: listener, Certificates: certificates})
	if err := NewWebhookManagedBy(mgr{widgetScheme(), server, logr.Discard()}, &WidgetV1{}).
		WithDefaulter(colors{}).WithValidator(sizes{}).Complete(); err != nil {
		t.Fatal(err)
	}
	if err := certificates.Ensure(silent(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !tell {
		for _, obj := range parse(t, manifests) {
			if err := LocalConfigurations(base, certificates.CABundle(), obj); err != nil {
				t.Fatal(err)
			}
			if err := w.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop, wait := run(t, server)
	in := func(version string) dynamic.ResourceInterface {
		return w.dynamic.Resource(v1.WithResource("widgets").GroupResource().WithVersion(version)).Namespace("default")
	}
	made := parse(t, `{apiVersion: things.example.com/v1alpha1, kind: Widget, metadata: {name: a}, size: "5"}`)[0]
	created, err := eventually(func() (*unstructured.Unstructured, error) {
		return in("v1alpha1").Create(t.Context(), made, metav1.CreateOptions{})
	})
	if err != nil {
		t.Fatal(err)
	}
	if created.Object["size"] != "5" {
		t.Errorf("got %v", created.Object)
	}
	got, err := in("v1beta1").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 1 || got.Items[0].Object["width"] != int64(5) || got.Items[0].Object["height"] != int64(5) || got.Items[0].GetUID() != created.GetUID() {
		t.Errorf("got %v", got.Items)
	}
	wrong := parse(t, `{apiVersion: things.example.com/v1alpha1, kind: Widget, metadata: {name: b}, size: "big"}`)[0]
	if _, err := in("v1alpha1").Create(t.Context(), wrong, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "size big is no number") {
		t.Errorf("got %v", err)
	}
	// Admission webhooks get v1, whatever version is written.
	plain, err := in("v1").Create(t.Context(), parse(t, widget("d", ""))[0], metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if color, _, _ := unstructured.NestedString(plain.Object, "spec", "color"); color != "blue by CREATE" {
		t.Errorf("got the color %q", color)
	}
	big := parse(t, `{apiVersion: things.example.com/v1alpha1, kind: Widget, metadata: {name: c}, size: "101"}`)[0]
	if _, err := in("v1alpha1").Create(t.Context(), big, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), `admission webhook "vwidget.kb.io" denied the request`) || !strings.Contains(err.Error(), "must be at most 100") {
		t.Errorf("got %v", err)
	}
	stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// eventually calls f until it succeeds, for up to a minute: an API server needs a moment to serve a
// changed definition.
func eventually[T any](f func() (T, error)) (got T, err error) {
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
		if got, err = f(); err == nil {
			return got, nil
		}
	}
	return got, err
}

func TestLocalConfigurations(t *testing.T) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{
		{Name: "a", ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s", Namespace: "n", Path: new("/mutate")}}},
		{Name: "b", ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s", Namespace: "n"}}},
	}}
	definition := parse(t, manifests)[2]
	if err := LocalConfigurations("https://localhost:9443", []byte("CA"), mutating, definition); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"https://localhost:9443/mutate", "https://localhost:9443"} {
		if c := mutating.Webhooks[i].ClientConfig; c.URL == nil || *c.URL != want || c.Service != nil || string(c.CABundle) != "CA" {
			t.Errorf("got %+v, want %s", c, want)
		}
	}
	configs, err := clientConfigs(definition.Object)
	if err != nil || configs[0]["url"] != "https://localhost:9443/convert" || configs[0]["caBundle"] != "Q0E=" {
		t.Errorf("got %v, %v", configs, err)
	}
	for want, obj := range map[string]client.Object{
		"its conversion has no webhook":     &apiextensionsv1.CustomResourceDefinition{},
		"it has no webhooks":                &admissionregistrationv1.ValidatingWebhookConfiguration{},
		"webhook 0 has no clientConfig":     parse(t, `{webhooks: [{name: a}]}`)[0],
		"webhook 0 is not an object":        parse(t, `{webhooks: [a]}`)[0],
		"spec.conversion.strategy":          parse(t, `{spec: {conversion: {strategy: 5}}}`)[0],
		"webhook 0 is not an object\x00crd": parse(t, `{spec: {conversion: {strategy: Webhook}}}`)[0],
	} {
		want, _, _ = strings.Cut(want, "\x00")
		if err := LocalConfigurations("https://localhost:9443", nil, obj); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, base := range []string{"", "http://localhost", "https://", "localhost:9443", "://"} {
		if err := LocalConfigurations(base, nil, mutating); err == nil {
			t.Errorf("the base %q is accepted", base)
		}
	}
}
