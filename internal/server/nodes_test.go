package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/connect"
	"github.com/kapok-dev/kapok/internal/pki"
)

// TestNodeOptions checks the errors of options.
func TestNodeOptions(t *testing.T) {
	for _, test := range []struct {
		options NodeOptions
		text    string
	}{
		{NodeOptions{ClientCertFile: "a"}, `Options.Nodes.ClientCertFile is "a" and ClientKeyFile is "": set both or neither`},
		{NodeOptions{ClientKeyFile: "a"}, "set both or neither"},
		{NodeOptions{ClientCertFile: "/absent", ClientKeyFile: "/absent"}, "Options.Nodes.ClientCertFile and ClientKeyFile: "},
		{NodeOptions{Timeout: -1}, "cannot be negative"},
		{NodeOptions{AddressTypes: []string{"InternalIP", ""}}, "has an empty element"},
	} {
		options := Options{Nodes: test.options}
		if err := options.Validate(); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: %v", test.options, err)
		}
	}
	for _, content := range []string{"", "no certificate"} {
		file := filepath.Join(t.TempDir(), "ca.crt")
		if content != "" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Start(t.Context(), Options{Nodes: NodeOptions{CAFile: file}}); err == nil || !strings.Contains(err.Error(), "Options.Nodes.CAFile: ") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// TestNodeFiles changes the authorities of kubelets and the client certificate while they are in
// use.
func TestNodeFiles(t *testing.T) {
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.TLS.PeerCertificates[0].Subject.CommonName))
	}))
	kubelet.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	kubelet.StartTLS()
	defer kubelet.Close()

	credentials, err := pki.Open("", nil, []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	client := func(name string) (cert, key string) {
		c, err := credentials.Authority().Client(name, nil, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return write("client.crt", c.Certificate), write("client.key", c.Key)
	}
	cert, key := client("first")
	options := NodeOptions{CAFile: write("ca.crt", credentials.AuthorityPEM()), ClientCertFile: cert, ClientKeyFile: key, Loopback: true}
	st, err := openStore(t.Context(), Options{}.withDefaults(), Journals{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	connector, files, err := options.connector(t.Context(), &parts{state: st.state}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer connector.Close()
	send := func() string {
		w := httptest.NewRecorder()
		to := &connect.Target{Kubelet: true, Proxied: true, URL: parse(t, kubelet.URL+"/")}
		connector.Serve(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), to, func(err error) { w.WriteString(err.Error()) })
		return w.Body.String()
	}
	refresh := func() {
		t.Helper()
		for _, f := range files {
			if _, err := f.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := send(); !strings.Contains(got, "certificate signed by unknown authority") {
		t.Errorf("a certificate of another authority: %s", got)
	}
	write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kubelet.Certificate().Raw}))
	if refresh(); send() != "first" {
		t.Errorf("a certificate of the new authority: %s", send())
	}
	client("second")
	write("ca.crt", append(credentials.AuthorityPEM(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kubelet.Certificate().Raw})...))
	if refresh(); send() != "second" {
		t.Errorf("another client certificate: %s", send())
	}
	write("ca.crt", credentials.AuthorityPEM())
	if refresh(); !strings.Contains(send(), "certificate signed by unknown authority") {
		t.Errorf("an authority that is no longer trusted: %s", send())
	}
}

// TestKubeletClient checks the server's certificate for kubelets: it is replaced in time, and a
// server rejects it.
func TestKubeletClient(t *testing.T) {
	s, err := Start(t.Context(), Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	k := &kubeletClient{authority: s.socket.authority()}
	pair, err := k.certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := k.certificate(nil); err != nil || again != pair {
		t.Errorf("another certificate without need, %v", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.CommonName != authn.KubeletClient || len(leaf.Subject.Organization) != 1 || leaf.Subject.Organization[0] != authn.KubeletAdmins {
		t.Errorf("the certificate is for %s", leaf.Subject)
	}
	k.end = time.Now().Add(kubeletClientReserve)
	if again, err := k.certificate(nil); err != nil || again == pair {
		t.Errorf("no new certificate near the end, %v", err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*pair}}}
	defer transport.CloseIdleConnections()
	for _, path := range []string{"/readyz", "/api/v1/nodes"} {
		answer, err := (&http.Client{Transport: transport}).Get("https://" + s.Address() + path)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
