package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/pki"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const anyPort = "127.0.0.1:0"

func adminConfig(t *testing.T, s *Server) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	// A dialler for each test keeps client-go from sharing connections among tests.
	config.Dial = (&net.Dialer{}).DialContext
	return config
}

func TestCredentials(t *testing.T) {
	leakFree(t)
	opts := newEcho().options()
	opts.Listen = anyPort
	s := start(t, opts)
	stranger, err := pki.Open("", nil, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := stranger.Kubeconfig(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	without := func(c *rest.Config) { c.CertData, c.KeyData = nil, nil }
	for _, tc := range []struct {
		name   string
		change func(*rest.Config)
		code   int
		body   string
	}{
		{"certificate", func(*rest.Config) {}, 200, "kubernetes-admin [system:masters system:authenticated] over HTTP/2.0"},
		{"certificate, HTTP/1.1", func(c *rest.Config) { c.NextProtos = []string{"http/1.1"} },
			200, "kubernetes-admin [system:masters system:authenticated] over HTTP/1.1"},
		{"token", func(c *rest.Config) { without(c); c.BearerToken = s.socket.credentials.Token() },
			200, "kubernetes-admin [system:masters system:authenticated] over HTTP/2.0"},
		{"wrong token", func(c *rest.Config) { without(c); c.BearerToken = "x" }, 401, `"message":"Unauthorized"`},
		{"nothing", without, 200, "system:anonymous [system:unauthenticated] over HTTP/2.0"},
		{"a stranger's certificate", func(c *rest.Config) {
			other, err := clientcmd.RESTConfigFromKubeConfig(strangers)
			if err != nil {
				t.Fatal(err)
			}
			c.CertData, c.KeyData = other.CertData, other.KeyData
		}, 401, `"reason":"Unauthorized"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := adminConfig(t, s)
			tc.change(config)
			c := client(t, config)
			defer c.CloseIdleConnections()
			for range 2 { // on the same connection
				code, body := get(t, c, config.Host+"/who")
				if code != tc.code || !strings.Contains(body, tc.body) {
					t.Errorf("got %d %s", code, body)
				}
			}
		})
	}

	t.Run("old TLS", func(t *testing.T) {
		_, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
		if err == nil {
			t.Error("TLS 1.1 was accepted")
		}
	})
	t.Run("no TLS", func(t *testing.T) {
		r, err := http.Get("http://" + s.Address() + "/who")
		if err == nil {
			r.Body.Close()
			if r.StatusCode != 400 {
				t.Errorf("the response to plain HTTP is %s", r.Status)
			}
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// TestListener checks that a server accepts connections from a socket that is open already, and
// closes it at the end.
func TestListener(t *testing.T) {
	leakFree(t)
	listener, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	opts := newEcho().options()
	opts.Listener = listener
	if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), "Options.Listener is set but Options.Listen is not") {
		t.Errorf("without the address: %v", err)
	}
	opts.Listen = listener.Addr().String()
	s := start(t, opts)
	if s.Address() != opts.Listen {
		t.Errorf("the server listens at %s, want %s", s.Address(), opts.Listen)
	}
	config := adminConfig(t, s)
	c := client(t, config)
	if code, body := get(t, c, config.Host+"/who"); code != 200 {
		t.Errorf("got %d %s", code, body)
	}
	c.CloseIdleConnections()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", opts.Listen); err == nil {
		c.Close()
		t.Error("the socket is still open")
	}
}

// presented returns the certificate that a server presents.
func presented(t *testing.T, s *Server) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// TestCertificateNames checks that the certificate is valid for the address of the service
// kubernetes, which clients in the cluster use, and for the names in the options. A stored
// certificate that lacks one of them is issued again.
func TestCertificateNames(t *testing.T) {
	leakFree(t)
	dir := t.TempDir()
	old, err := pki.Open(filepath.Join(dir, "pki"), nil, []string{"localhost", "127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	usual := []string{"127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	added := []string{"kapok.example.com", "*.apps.example.com", "192.0.2.7", "2001:db8::7"}
	var last *x509.Certificate
	for _, run := range []struct {
		name     string
		services string
		added    []string
		want     []string
		kept     bool // the certificate of the previous run is still used
	}{
		{name: "of an earlier version", want: []string{"10.96.0.1"}},
		{name: "again", want: []string{"10.96.0.1"}, kept: true},
		{name: "names added", added: added, want: append(added, "10.96.0.1", "a.apps.example.com")},
		{name: "names no longer asked for", want: added, kept: true},
		{name: "another range for a store that has services", services: "10.0.0.0/24", want: []string{"10.96.0.1"}, kept: true},
	} {
		opts := Options{DataDir: dir, Listen: anyPort, UnsafeNoFsync: true}
		opts.Serving.Names = run.added
		if run.services != "" {
			opts.ServiceAddresses = netip.MustParsePrefix(run.services)
		}
		s := start(t, opts)
		cert := presented(t, s)
		for _, name := range append(usual, run.want...) {
			if name == "*.apps.example.com" {
				name = "b.apps.example.com"
			}
			if err := cert.VerifyHostname(name); err != nil {
				t.Errorf("%s: %v", run.name, err)
			}
		}
		if cert.CheckSignatureFrom(parsed(t, old.AuthorityPEM())) != nil {
			t.Errorf("%s: another authority", run.name)
		}
		if kept := last != nil && cert.Equal(last); kept != run.kept {
			t.Errorf("%s: the certificate is kept: %t, want %t", run.name, kept, run.kept)
		}
		last = cert
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, Options{Listen: anyPort, ServiceAddresses: netip.MustParsePrefix("10.0.0.0/24")})
	if err := presented(t, s).VerifyHostname("10.0.0.1"); err != nil {
		t.Errorf("a new store: %v", err)
	}
	for _, bad := range []string{"", "kapok.example.com:6443", "https://kapok", "a,b", "Kapok", "*", "a.*.com", "10.0.0.0/8", "fe80::1%eth0"} {
		opts := Options{Listen: anyPort}
		opts.Serving.Names = []string{bad}
		if _, err := Start(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "want a DNS name") {
			t.Errorf("name %q: %v", bad, err)
		}
	}
}

func parsed(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestCipherSuites checks that below TLS 1.3 the server only offers suites with forward secrecy and
// authenticated encryption.
func TestCipherSuites(t *testing.T) {
	leakFree(t)
	opts := newEcho().options()
	opts.Listen = anyPort
	s := start(t, opts)
	offered := 0
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		conn, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
		if err != nil {
			continue
		}
		conn.Close()
		offered++
		if !strings.HasPrefix(suite.Name, "TLS_ECDHE_") || !strings.Contains(suite.Name, "_GCM_") && !strings.Contains(suite.Name, "_POLY1305_") {
			t.Errorf("%s is offered", suite.Name)
		}
	}
	if offered != 3 { // all suites for a certificate with an ECDSA key
		t.Errorf("%d suites are offered", offered)
	}
}

// TestKubeconfigMeansReady checks that the kubeconfig of an earlier run is removed before the
// server serves, and that the new one is written when the server is ready, before Start returns.
func TestKubeconfigMeansReady(t *testing.T) {
	leakFree(t)
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(dir, "kubeconfig")
	var earlier []byte
	for range 2 {
		opts := newEcho().options()
		opts.DataDir, opts.Listen = dir, anyPort
		inner := opts.newHandler
		opts.newHandler = func(ctx context.Context, p parts) (handler, error) {
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the kubeconfig exists before the server is ready: %v", err)
			}
			return inner(ctx, p)
		}
		s := start(t, opts)
		data, err := os.ReadFile(file)
		if err != nil || string(data) != string(s.Kubeconfig()) {
			t.Errorf("kubeconfig %q, %v", data, err)
		}
		if string(data) == string(earlier) {
			t.Error("the kubeconfig is still that of the first run, with another port")
		}
		earlier = data
		config := adminConfig(t, s)
		if code, _ := get(t, client(t, config), config.Host+"/who"); code != 200 {
			t.Errorf("a request with the kubeconfig returns %d", code)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the kubeconfig exists after Stop: %v", err)
		}
	}
}

// TestStartFails checks that a failed start returns the reason, leaves no goroutine, and changes no
// files of others.
func TestStartFails(t *testing.T) {
	leakFree(t)
	running := newEcho().options()
	running.DataDir, running.Listen = filepath.Join(t.TempDir(), "data"), anyPort
	first := start(t, running)
	users := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(users, []byte("apiVersion: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		opts starter
		want string
	}{
		{"same directory", nil, Options{DataDir: running.DataDir, Listen: anyPort}, "another kapok is running on data directory " + running.DataDir},
		{"same port", nil, Options{Listen: first.Address(), Kubeconfig: filepath.Join(running.DataDir, "kubeconfig")},
			first.Address() + ", which another program uses: stop it, or listen at 127.0.0.1:0, which picks a free port"},
		{"user's kubeconfig", nil, Options{Listen: anyPort, Kubeconfig: users}, "was not written by kapok"},
		{"kubeconfig without socket", nil, Options{Kubeconfig: users}, "set Listen"},
		{"no port", nil, Options{Listen: "localhost"}, `Options.Listen is "localhost": want HOST:PORT, like 127.0.0.1:6443`},
		{"no number", nil, Options{Listen: "localhost:https"}, `port "https" must be a number from 0 to 65535`},
		{"large port", nil, Options{Listen: "localhost:65536"}, `port "65536" must be a number from 0 to 65535`},
		{"unknown host", nil, Options{Listen: "256.0.0.1:0"}, "256.0.0.1"},
		{"file for directory", nil, Options{DataDir: file, Listen: anyPort}, file},
		{"negative history", nil, Options{HistoryMemory: -1}, "Options.HistoryMemory is -1, HistoryDisk is 0, HistoryAge is 0s: none of them can be negative"},
		{"handler fails", nil, setup{Options: Options{Listen: anyPort}, newHandler: func(context.Context, parts) (handler, error) {
			return nil, errors.New("no handler today")
		}}, "no handler today"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := tc.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			s, err := tc.opts.start(ctx)
			if err == nil {
				s.Stop()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
	if data, err := os.ReadFile(filepath.Join(running.DataDir, "kubeconfig")); err != nil || string(data) != string(first.Kubeconfig()) {
		t.Errorf("the kubeconfig of the running server has changed: %v", err)
	}
	s, err := newEcho().options().start(done)
	if err == nil {
		err = s.Wait() // a cancelled context stops the server
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestStopOutside checks that Stop first ends watches; then the connection gets GOAWAY and is
// closed. Stop does not wait for a connection without a request, as net/http would for five
// seconds.
func TestStopOutside(t *testing.T) {
	leakFree(t)
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			var took time.Duration
			for range 5 { // a busy machine delays some, but not all
				if took = stopOutside(t, protocol); took < 4*time.Second {
					return
				}
			}
			t.Errorf("Stop takes %v", took)
		})
	}
}

// stopOutside stops a server with a watch and an unused connection, and returns the time that
// takes.
func stopOutside(t *testing.T, protocol string) (took time.Duration) {
	e := newEcho()
	opts := e.options()
	opts.Listen = anyPort
	s := start(t, opts)
	config := adminConfig(t, s)
	config.NextProtos = []string{protocol}
	c := client(t, config)
	defer c.CloseIdleConnections()
	watch, err := c.Get(config.Host + "/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	unused, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	begin := time.Now()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	took = time.Since(begin)
	if body, err := io.ReadAll(watch.Body); err != nil || string(body) != "end" {
		t.Errorf("the watch did not end cleanly: %q, %v", body, err)
	}
	if !e.closedLast() {
		t.Error("the handler was closed while requests were under way")
	}
	if r, err := c.Get(config.Host + "/who"); err == nil { // from another server of this port there is an error
		r.Body.Close()
		t.Error("a stopped server responds")
	}
	return took
}

func TestDataDirIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, Options{DataDir: dir, Listen: anyPort})
	check := func() {
		t.Helper()
		files := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			others := fs.FileMode(0o077)
			if filepath.Ext(path) == ".crt" {
				others = 0o022 // certificates are public
			}
			if info.Mode().Perm()&others != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			files++
			return nil
		})
		if err != nil || files < 8 {
			t.Errorf("%d files, %v", files, err)
		}
	}
	check()
	s.Stop()
	check()
}

// BenchmarkStartStopOnDisk starts a server as kapok up does, with socket, credentials and a journal
// on disk.
func BenchmarkStartStopOnDisk(b *testing.B) {
	for _, fresh := range []bool{true, false} {
		name := "again"
		if fresh {
			name = "fresh"
		}
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			for i := 0; b.Loop(); i++ {
				opts := Options{DataDir: dir, Listen: anyPort}
				if fresh {
					opts.DataDir = filepath.Join(dir, strconv.Itoa(i))
				}
				s, err := Start(b.Context(), opts)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.Stop()
				b.StartTimer()
			}
		})
	}
}
