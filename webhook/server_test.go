package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/manager/certwatcher"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// writePair writes a certificate of localhost to a directory.
func writePair(t *testing.T, dir string) *selfSigned {
	t.Helper()
	pair, err := newSelfSigned([]string{"localhost", "127.0.0.1"}, time.Hour, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tls.crt"), pair.cert)
	write(t, filepath.Join(dir, "tls.key"), pair.key)
	return pair
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestServer tests the whole server, over sockets, with HTTP/2 and HTTP/1.1.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	pair := writePair(t, dir)
	listener := loopback(t)
	registry := prometheus.NewPedanticRegistry()
	server := NewServer(Options{CertDir: dir, Listener: listener, Registerer: registry})
	checker := server.StartedChecker()
	probe, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := checker(probe); err == nil {
		t.Error("a server that has not been started is healthy")
	}
	if server.NeedLeaderElection() {
		t.Error("a server needs leader election")
	}
	if err := NewWebhookManagedBy(mgr{widgetScheme(), server, logr.Discard()}, &WidgetV1{}).WithValidator(sizes{}).Complete(); err != nil {
		t.Fatal(err)
	}
	stop, wait := run(t, server)

	url := "https://" + listener.Addr().String()
	for _, proto := range []string{"HTTP/2.0", "HTTP/1.1"} {
		client := trusting(t, pair.bundle, nil)
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = proto == "HTTP/2.0"
		resp, err := client.Post(url+"/validate-things-example-com-v1-widget", "application/json",
			strings.NewReader(reviewOf(`,"operation":"CREATE","object":`+widget("a", `"size":-1`))))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.Proto != proto || resp.StatusCode != 200 {
			t.Errorf("got %s %s", resp.Proto, resp.Status)
		}
		contains(t, "answer", string(body), `"uid":"u"`, "smaller than nothing")
		resp, err = client.Post(url+ConvertPath, "application/json", strings.NewReader(conversionOf("things.example.com/v1", alpha("a", "1"))))
		if err != nil {
			t.Fatal(err)
		}
		body, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		contains(t, "answer", string(body), hub("a", 1))
		client.CloseIdleConnections()
	}
	for _, r := range []*http.Request{probe, nil} {
		if err := checker(r); err != nil {
			t.Error(err)
		}
	}
	if got, err := testutil.GatherAndCount(registry, "controller_runtime_webhook_requests_total"); err != nil || got != 4 {
		t.Errorf("got %d counters of requests, %v, want 4: two paths, 200 and 500", got, err)
	}
	old := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}}
	if conn, err := old.DialContext(t.Context(), "tcp", listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	stop()
	if err := wait(); err != nil {
		t.Error(err)
	}
	if err := checker(probe); err == nil {
		t.Error("a server that has been stopped is healthy")
	}
	if err := server.Start(t.Context()); err == nil {
		t.Error("a server starts twice")
	}
}

// TestCertificateReload checks that certificates are reloaded when they change, as a pair.
func TestCertificateReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		first := writePair(t, dir)
		listener := newMemory()
		stop, wait := run(t, NewServer(Options{CertDir: dir, Listener: listener}))
		shown := func() string {
			t.Helper()
			time.Sleep(2 * certwatcher.Interval)
			cert, err := listener.shake(t.Context(), "localhost", nil)
			if err != nil {
				t.Fatal(err)
			}
			return cert.SerialNumber.String()
		}
		serial := func(s *selfSigned) string { return s.tls.Leaf.SerialNumber.String() }
		if got := shown(); got != serial(first) {
			t.Errorf("got %s, want the first", got)
		}
		second, err := newSelfSigned([]string{"localhost"}, time.Hour, time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "tls.crt"), second.cert)
		if got := shown(); got != serial(first) {
			t.Errorf("half a pair: got %s, want the first", got)
		}
		write(t, filepath.Join(dir, "tls.key"), second.key)
		if got := shown(); got != serial(second) {
			t.Errorf("got %s, want the second", got)
		}
		write(t, filepath.Join(dir, "tls.crt"), second.cert[:len(second.cert)/2])
		if got := shown(); got != serial(second) {
			t.Errorf("half a certificate: got %s, want the second", got)
		}
		if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
			t.Fatal(err)
		}
		if got := shown(); got != serial(second) {
			t.Errorf("no key: got %s, want the second", got)
		}
		third := writePair(t, dir)
		if got := shown(); got != serial(third) {
			t.Errorf("got %s, want the third", got)
		}
		stop()
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestGracefulStop checks that a server that shuts down accepts no connections and finishes its
// requests; the contexts of handlers stay valid until the grace has passed.
func TestGracefulStop(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		fails bool
	}{{takes: 30 * time.Second}, {takes: 2 * stopTime, fails: true}} {
		t.Run(test.takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				pair := writePair(t, dir)
				listener := newMemory()
				server := NewServer(Options{CertDir: dir, Listener: listener})
				entered := make(chan struct{})
				server.Register("/slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(entered)
					select {
					case <-time.After(test.takes):
						fmt.Fprint(w, "done")
					case <-r.Context().Done():
					}
				}))
				stop, wait := run(t, server)
				client := trusting(t, pair.bundle, listener.dial)
				answered := make(chan string, 1)
				go func() {
					resp, err := client.Get("https://localhost/slow")
					if err != nil {
						answered <- "failed"
						return
					}
					defer resp.Body.Close()
					body, _ := io.ReadAll(resp.Body)
					answered <- string(body)
				}()
				<-entered
				start := time.Now()
				stop()
				err := wait()
				if took := time.Since(start); took > min(test.takes, stopTime)+time.Second || took < min(test.takes, stopTime) {
					t.Errorf("the stop took %v", took)
				}
				if (err != nil) != test.fails {
					t.Errorf("got %v", err)
				}
				if got := <-answered; (got != "done") != test.fails {
					t.Errorf("got the answer %q", got)
				}
				if _, err := listener.dial(t.Context(), "", ""); err == nil {
					t.Error("a connection is accepted after the stop")
				}
				client.CloseIdleConnections()
			})
		})
	}
}

func TestServerErrors(t *testing.T) {
	hook := http.NotFoundHandler()
	dir := t.TempDir()
	writePair(t, dir)
	write(t, filepath.Join(dir, "empty.crt"), nil)
	registry := prometheus.NewRegistry()
	NewServer(Options{Registerer: registry})
	tests := map[string]struct {
		options  Options
		register []string
		want     string
	}{
		"a path twice":          {Options{CertDir: dir}, []string{"/a", "/a"}, `webhook at "/a"`},
		"no path":               {Options{CertDir: dir}, []string{""}, `webhook at ""`},
		"no pattern":            {Options{CertDir: dir}, []string{"/{"}, `webhook at "/{"`},
		"no certificate":        {Options{CertDir: t.TempDir()}, nil, "the certificate of the webhook server: "},
		"no key":                {Options{CertDir: dir, KeyName: "other.key"}, nil, "other.key"},
		"no client authority":   {Options{CertDir: dir, ClientCAName: "ca.crt"}, nil, "the authorities of clients: "},
		"empty authority":       {Options{CertDir: dir, ClientCAName: "empty.crt"}, nil, "no certificate in"},
		"no port":               {Options{CertDir: dir, Host: "127.0.0.1", Port: 70000}, nil, "70000"},
		"metrics are there":     {Options{CertDir: dir, Registerer: registry}, nil, "duplicate metrics"},
		"a listener that fails": {Options{CertDir: dir, Listener: closedListener(t)}, nil, "serving webhooks: "},
	}
	for name, test := range tests {
		server := NewServer(test.options)
		for _, path := range test.register {
			server.Register(path, hook)
		}
		if err := server.Start(silent(t.Context())); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func closedListener(t *testing.T) net.Listener {
	l := loopback(t)
	l.Close()
	return l
}

func TestDisabledServer(t *testing.T) {
	server := NewServer(Options{Port: -1})
	server.Register("/a", http.NotFoundHandler())
	if err := server.Start(silent(t.Context())); err != nil {
		t.Error(err)
	}
	if err := server.StartedChecker()(nil); err != nil {
		t.Error(err)
	}
}

// TestClientCertificates checks client certificates, and that TLSOpts override other options.
func TestClientCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		pair := writePair(t, dir)
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), IsCA: true,
			BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		caller := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
		write(t, filepath.Join(dir, "client-ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		listener := newMemory()
		server := NewServer(Options{CertDir: dir, ClientCAName: "client-ca.crt", Listener: listener, TLSOpts: []func(*tls.Config){
			func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
		}})
		server.Register("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
		stop, wait := run(t, server)
		get := func(certs ...tls.Certificate) (string, error) {
			client := trusting(t, pair.bundle, listener.dial)
			defer client.CloseIdleConnections()
			client.Transport.(*http.Transport).TLSClientConfig.Certificates = certs
			resp, err := client.Get("https://localhost/")
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return string(body), err
		}
		if got, err := get(); err == nil {
			t.Errorf("a client without a certificate gets %q", got)
		}
		if got, err := get(pair.tls); err == nil {
			t.Errorf("a client with the certificate of another authority gets %q", got)
		}
		if got, err := get(caller); err != nil || got != "HTTP/1.1" {
			t.Errorf("got %q, %v", got, err)
		}
		stop()
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestContextOfStart checks that the contexts of requests have the values of the context of Start,
// such as its logger.
func TestContextOfStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair, err := newSelfSigned([]string{"localhost"}, time.Hour, time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		listener := newMemory()
		server := NewServer(Options{Listener: listener, TLSOpts: []func(*tls.Config){
			func(c *tls.Config) { c.Certificates = []tls.Certificate{pair.tls} },
		}})
		server.Register("/hook", &Webhook{Handler: HandlerFunc(func(ctx context.Context, req Request) Response {
			logr.FromContextOrDiscard(ctx).Info("asked")
			return Allowed("")
		})})
		var mu sync.Mutex
		var logged strings.Builder
		ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			logged.WriteString(args)
		}, funcr.Options{})))
		ended := make(chan error, 1)
		go func() { ended <- server.Start(ctx) }()
		client := trusting(t, pair.bundle, listener.dial)
		resp, err := client.Post("https://localhost/hook", "application/json", strings.NewReader(reviewOf(`,"name":"a"`)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		contains(t, "log", logged.String(), `"msg"="asked" "object"={"name"="a"}`)
	})
}
