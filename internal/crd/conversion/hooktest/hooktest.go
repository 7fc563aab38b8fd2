// Package hooktest is a conversion webhook for tests: an HTTPS server with its own authority, which
// sends the responses that a test defines, valid or not.
package hooktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A Review is one request to the webhook.
type Review struct {
	// GaveUp is closed when the client has cancelled the request.
	GaveUp <-chan struct{} `json:"-"`

	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID     string           `json:"uid"`
		Desired string           `json:"desiredAPIVersion"`
		Objects []map[string]any `json:"objects"`
	} `json:"request"`
}

// Success returns a valid response to a review, with the given objects.
func (r *Review) Success(objects ...map[string]any) map[string]any {
	return map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "response": map[string]any{
		"uid": r.Request.UID, "convertedObjects": objects, "result": map[string]any{"status": "Success"},
	}}
}

// A Hook is a running webhook. Its methods are safe for concurrent use.
type Hook struct {
	// URL is the webhook's address, and CA the PEM of the authority that signed its certificate.
	// The certificate is also valid for hook.default.svc.
	URL string
	CA  []byte

	server *httptest.Server
	mu     sync.Mutex
	answer func(*Review) any
	calls  []Review
}

// Start starts a webhook that ends with the test. answer returns a value that is sent as JSON, or
// bytes that are sent unchanged; it runs in a goroutine for each call.
func Start(t testing.TB, answer func(*Review) any) *Hook {
	t.Helper()
	h := &Hook{answer: answer, server: httptest.NewUnstartedServer(nil)}
	certificate, ca, err := certificates()
	if err != nil {
		t.Fatal(err)
	}
	h.CA = ca
	h.server.Config.Handler = h
	h.server.Config.ErrorLog = log.New(io.Discard, "", 0) // drops errors of handshakes that tests provoke
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	h.server.EnableHTTP2 = true
	h.server.StartTLS()
	t.Cleanup(h.Stop)
	h.URL = h.server.URL + "/convert"
	return h
}

// Stop stops the webhook and closes its connections.
func (h *Hook) Stop() {
	h.server.CloseClientConnections()
	h.server.Close()
}

// Address returns the listener's address, HOST:PORT.
func (h *Hook) Address() string { return h.server.Listener.Addr().String() }

// Answer replaces the function that returns responses.
func (h *Hook) Answer(answer func(*Review) any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// Calls returns the requests since the last call of Calls.
func (h *Hook) Calls() []Review {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

// ServeHTTP implements http.Handler.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if media := r.Header.Get("Content-Type"); media != "application/json" { // as frameworks for webhooks check it
		http.Error(w, "content type "+media, http.StatusUnsupportedMediaType)
		return
	}
	var review Review
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.GaveUp = r.Context().Done()
	h.mu.Lock()
	answer := h.answer
	h.calls = append(h.calls, review)
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch a := answer(&review).(type) {
	case int:
		http.Error(w, "no", a)
	case []byte:
		_, _ = w.Write(a)
	default:
		_ = json.NewEncoder(w).Encode(a)
	}
}

// certificates creates an authority, and a certificate signed by it for this machine.
func certificates() (leaf tls.Certificate, ca []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return leaf, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return leaf, nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hooktest"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, root, root, caKey.Public(), caKey)
	if err != nil {
		return leaf, nil, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "hook"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "hook.default.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	signed, err := x509.CreateCertificate(rand.Reader, server, root, key.Public(), caKey)
	if err != nil {
		return leaf, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), nil
}
