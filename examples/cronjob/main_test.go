package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/webhook"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// TestRun is the program as the tutorial runs it, on sockets: with probes, metrics, and webhooks
// whose certificate it makes itself.
func TestRun(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0", Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("ENABLE_WEBHOOKS", "")
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	manifest(t, "manifests/webhook/manifests.yaml", &mutating, &validating)
	for _, o := range []client.Object{&mutating, &validating} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}

	probes, metrics, hooks := freePort(t), freePort(t), freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, manager.Options{HealthProbeBindAddress: probes.String(), Metrics: manager.MetricsOptions{BindAddress: metrics.String()}},
			webhook.Options{Host: "127.0.0.1", Port: hooks.Port}, "https://"+hooks.String())
	}()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}}
	defer transport.CloseIdleConnections()
	hc := &http.Client{Transport: transport}
	get := func(url string) (string, bool) {
		response, err := hc.Get(url)
		if err != nil {
			return "", false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err == nil && response.StatusCode == http.StatusOK
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		until(t, path, func() bool { body, ok := get("http://" + probes.String() + path); return ok && body == "ok" })
	}
	until(t, "metrics", func() bool {
		body, ok := get("http://" + metrics.String() + "/metrics")
		return ok && bytes.Contains([]byte(body), []byte("go_goroutines"))
	})

	// The configuration has the address and the CA of the webhook, as a server needs them to call it.
	var at *admissionregistrationv1.WebhookClientConfig
	until(t, "the webhook configuration has a CA bundle", func() bool {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(&validating), &validating); err != nil {
			t.Fatal(err)
		}
		at = &validating.Webhooks[0].ClientConfig
		return at.URL != nil && len(at.CABundle) > 0
	})
	if want := "https://" + hooks.String() + validatePath; *at.URL != want {
		t.Errorf("the webhook is at %s, want %s", *at.URL, want)
	}
	transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(at.CABundle)
	body, err := os.ReadFile(filepath.FromSlash("testdata/admission-review.json"))
	if err != nil {
		t.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	until(t, "the webhook answers", func() bool {
		response, err := hc.Post(*at.URL, "application/json", bytes.NewReader(body))
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return json.NewDecoder(response.Body).Decode(&review) == nil
	})
	if review.Response == nil || review.Response.Allowed {
		t.Errorf("the answer is %v", review.Response)
	}

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// lastPort is the port that freePort has returned last.
var lastPort = 20_000 + os.Getpid()*7%10_000

// freePort returns an unused address, another one for each call. Systems assign higher ports, so
// that no other program gets it meanwhile.
func freePort(t *testing.T) *net.TCPAddr {
	t.Helper()
	for lastPort++; lastPort < 32_768; lastPort++ {
		address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: lastPort}
		if l, err := net.ListenTCP("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("all ports are in use")
	return nil
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
