package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

func TestSift(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.String("name", "", "")
	f.Bool("yes", false, "")
	f.StringP("v", "v", "", "")
	accept(f, "ignored\nswitch bool\n")
	for _, tc := range []struct{ args, known, unknown string }{
		{"--name=a --yes", "--name=a --yes", ""},
		{"-name a -yes", "--name a --yes", ""},
		{"--name --yes", "--name --yes", ""}, // the value of name, as pflag has it
		{"--ignored=1 --ignored 2 --switch", "--ignored=1 --ignored 2 --switch", ""},
		{"--other=1 --yes", "--yes", "--other"},
		{"--other 1 --yes", "--yes", "--other"},
		{"--na_me=a_b", "", "--na-me"},
		{"--switch --name=a_b=c", "--switch --name=a_b=c", ""},
		{"--other --more --yes", "--yes", "--other --more"},
		{"-v 4 -x", "--v 4", "--x"},
		{"-v4 -x4", "-v4", "--x4"},
		{"--yes argument", "--yes argument", ""},
		{"--help", "--help", ""},
		{"-", "-", ""},
		{"--", "--", ""},
		{"--name", "--name", ""},
	} {
		known, unknown := sift(f, strings.Fields(tc.args))
		if got := strings.Join(known, " "); got != tc.known {
			t.Errorf("%s: known %q, want %q", tc.args, got, tc.known)
		}
		if got := strings.Join(unknown, " "); got != tc.unknown {
			t.Errorf("%s: unknown %q, want %q", tc.args, got, tc.unknown)
		}
	}
}

func TestEnvtest(t *testing.T) {
	kapok, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	fill := func(args ...string) string {
		t.Helper()
		c := exec.Command(kapok, append([]string{"envtest"}, args...)...)
		c.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(t.TempDir(), "cache"))
		out, err := c.CombinedOutput()
		if err != nil {
			return "error: " + string(out)
		}
		return string(out)
	}
	dir := filepath.Join(t.TempDir(), "assets")
	for range 2 { // the second time, all is there
		if out := fill(dir); !strings.Contains(out, "KUBEBUILDER_ASSETS="+dir) {
			t.Fatal(out)
		}
	}
	for name, want := range map[string]string{"kube-apiserver": "Kubernetes v1.37", "etcd": "etcd Version: 3."} {
		out, err := exec.Command(filepath.Join(dir, name), "--version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s --version: %s, %v", name, out, err)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "kubectl"), "version", "--client").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Client Version: v1.37") {
		t.Errorf("kubectl version --client: %s, %v", out, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}

	// Binaries of others are left alone.
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), []byte("a real one"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := fill(dir); !strings.Contains(out, "was not created by Kapok") {
		t.Error(out)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "etcd")); string(got) != "a real one" {
		t.Errorf("etcd is now %d bytes", len(got))
	}

	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kapok"), []byte("#!/bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := fill(dir); !strings.Contains(out, "was not created by Kapok") {
		t.Error(out)
	}

	dir = filepath.Join(t.TempDir(), "with a space")
	if out := fill(dir); !strings.Contains(out, "KUBEBUILDER_ASSETS='"+dir+"'") {
		t.Error(out)
	}

	path := strings.TrimSpace(fill("path"))
	if _, err := os.Stat(filepath.Join(path, "kube-apiserver")); err != nil {
		t.Errorf("kapok envtest path prints %q: %v", path, err)
	}
	if out := fill(); !strings.Contains(out, "DIR is missing") {
		t.Error(out)
	}
}

// TestTenancy lends the directory of an etcd to one after another.
func TestTenancy(t *testing.T) {
	e := &etcd{dataDir: t.TempDir(), noFsync: true}
	server := httptest.NewServer(e.handler())
	defer server.Close()

	first, giveBack, err := rent(t.Context(), server.URL)
	if err != nil || first == nil || !first.NoFsync || filepath.Dir(first.DataDir) != e.dataDir {
		t.Fatalf("the first gets %+v, %v", first, err)
	}
	answer, err := http.Get(server.URL + tenancyPath)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusConflict {
		t.Errorf("the second client gets %s", answer.Status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := rent(ctx, server.URL); err == nil {
		t.Error("a canceled request gets the directory")
	}
	giveBack()
	second, giveBack, err := rent(t.Context(), server.URL)
	if err != nil || *second != *first {
		t.Fatalf("the second gets %+v, %v", second, err)
	}
	giveBack()

	for path, want := range map[string]int{"/health": 200, "/version": 200, "/v3/kv/range": 404} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}

	// A real etcd has no such thing.
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if lent, _, err := rent(t.Context(), other.URL); lent != nil || err != nil {
		t.Errorf("a real etcd lends %+v, %v", lent, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := rent(ctx, "http://127.0.0.1:1"); err == nil {
		t.Error("an unreachable server lends a directory")
	}

	// One that does not answer is not waited for beyond the end of the context.
	asked := make(chan struct{})
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	defer mute.Close()
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, _, err := rent(ctx, mute.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up asking gets %v", err)
	}
}

// TestTenancyLater asks an etcd that does not listen yet, and keeps what it lends beyond the end of
// the context.
func TestTenancyLater(t *testing.T) {
	address := freeAddress(t)
	server := httptest.NewUnstartedServer((&etcd{dataDir: t.TempDir()}).handler())
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var lent *tenancy
	var giveBack func()
	got := make(chan error)
	go func() {
		var err error
		lent, giveBack, err = rent(ctx, "http://"+address)
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("rent returned before a server listens: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	var err error
	if server.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	server.Start()
	if err := <-got; err != nil || lent == nil {
		t.Fatalf("%+v, %v", lent, err)
	}
	cancel()
	if another, _, err := rent(withTimeout(t, 100*time.Millisecond), server.URL); err == nil {
		t.Errorf("the directory is lent no longer than the context lasts: another one gets %+v", another)
	}
	giveBack()
}

// freeAddress returns an unused address. Systems assign higher ports, so that no other program gets
// it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for port := 20_000 + os.Getpid()*7%10_000; port < 32_768; port++ {
		address := fmt.Sprint("127.0.0.1:", port)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("all ports are in use")
	return ""
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestEtcdRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--listen-client-urls=https://127.0.0.1:0": "only http is supported",
		"--listen-client-urls=127.0.0.1":           "is not a URL",
		"more":                                     "unknown command",
		"--data-dir=/dev/null/x":                   "data directory",
	} {
		var out bytes.Buffer
		if code := runEtcd(strings.Fields(args), &out, &out); code != exitFailure || !strings.Contains(out.String(), want) {
			t.Errorf("etcd %s: exit code %d, %s", args, code, out.String())
		}
	}
}

// TestRemoveScratch removes what envtest has made, and nothing else.
func TestRemoveScratch(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	for name, removed := range map[string]bool{
		"k8s_test_framework_123":       true,
		"k8s_test_framework_124/inner": false,
		"other":                        false,
	} {
		dir := filepath.Join(temp, filepath.FromSlash(name))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := removeScratch(dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); os.IsNotExist(err) != removed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := removeScratch(""); err != nil {
		t.Error(err)
	}
}

// TestAPIServerOptions looks at what flags mean.
func TestAPIServerOptions(t *testing.T) {
	certs := t.TempDir()
	for _, file := range []string{"apiserver.crt", "apiserver.key"} {
		if err := os.WriteFile(filepath.Join(certs, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &apiServer{bind: "127.0.0.1", port: 1, certDir: certs, stderr: &bytes.Buffer{}, etcdServers: []string{"https://a:2379", "b:1"},
		options: kapok.Options{KeepGarbage: true}}
	s.options.Access.Modes = []string{"Node", "RBAC"}
	s.options.Etcd.CAFile = "ca.crt"
	s.options.Admission.Enable = []string{"NodeRestriction", "LimitRanger"}
	opts, _, err := s.complete(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if opts.Listen != "127.0.0.1:1" || opts.Store != "etcd://a:2379,b:1" || !opts.KeepGarbage ||
		opts.Serving.CertFile != filepath.Join(certs, "apiserver.crt") ||
		!slices.Equal(opts.Access.Modes, []string{"Node", "RBAC"}) || !slices.Equal(opts.Admission.Enable, []string{"NodeRestriction", "LimitRanger"}) {
		t.Errorf("%+v", opts)
	}
	if err := os.Remove(filepath.Join(certs, "apiserver.key")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.complete(t.Context()); err == nil || !strings.Contains(err.Error(), "apiserver.key") {
		t.Errorf("a certificate without its key: %v", err)
	}
	s.certDir, s.options.Etcd.CAFile = "", ""
	if _, _, err := s.complete(t.Context()); err == nil {
		t.Error("an etcd at https is spoken to without TLS")
	}
	s.gates = []string{"A=true", "AggregatedDiscoveryEndpoint=true", "AggregatedDiscoveryEndpoint=False"}
	if !s.groupByGroup() {
		t.Error("the feature gate is not heeded")
	}
	s = &apiServer{insecurePort: 8080, stderr: &bytes.Buffer{}}
	if _, _, err := s.complete(t.Context()); err == nil {
		t.Error("there is an insecure port")
	}
	s = &apiServer{stderr: &bytes.Buffer{}}
	if opts, _, err := s.complete(t.Context()); err != nil || opts.KeepGarbage || !slices.Equal(opts.Access.Modes, []string{"AlwaysAllow"}) {
		t.Errorf("%+v, %v", opts, err)
	}
}

// TestGateSettings checks that gates of suites which Kapok does not have, or which the release does
// not have, are ignored.
func TestGateSettings(t *testing.T) {
	s := &apiServer{gates: []string{"EnvFiles=false", "kube:HPAScaleToZero=true", "NoSuchGate=true", "PodsAPI=false", "NodeDeclaredFeatures=true", "CSIVolumeHealth", "ImageVolume=maybe"}}
	s.options.EmulatedVersion = "1.34"
	want := map[string]bool{"EnvFiles": false, "HPAScaleToZero": true}
	if got := s.gateSettings(); got.Release != 34 || !maps.Equal(got.Set, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
