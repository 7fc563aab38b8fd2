// Package aggregation runs a real extension server behind Kapok: Kubernetes' sample-apiserver, with
// its own etcd, and the real kubectl as the client. All programs are built from source.
//
// The sample server reads Kapok's config map kube-system/extension-apiserver-authentication, so
// that the test also checks that both agree on headers and certificates.
package aggregation

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// patience is the time limit of every wait.
const patience = 2 * time.Minute

// bin has the programs that TestMain builds.
var bin string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "kapok-aggregation-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	bin = dir
	for _, b := range []struct{ name, in, pkg string }{
		{"kapok", filepath.Join("..", ".."), "./cmd/kapok"},
		{"kubectl", filepath.Join("..", "kubectl"), "./kubectl"},
		{"wardle", ".", "k8s.io/sample-apiserver"},
	} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, b.name), b.pkg)
		build.Dir = b.in
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", b.name, err, out)
		}
	}
	return m.Run(), nil
}

// A world is the running programs and their addresses.
type world struct {
	*testing.T
	home, kubeconfig string
	etcd             string
	port             int
	ca               []byte
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, home: t.TempDir()}
	w.kubeconfig = filepath.Join(w.home, "kubeconfig")
	w.start("kapok", "up", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig", w.kubeconfig)
	w.until("kapok is ready", func() error {
		_, err := os.Stat(w.kubeconfig)
		return err
	})
	w.startEtcd()
	w.port = freePort(t)
	w.ca = writeCertificate(t, w.home, "api.wardle.svc")
	return w
}

// start starts a program, and returns a function that stops it. Its output is logged if the test
// fails.
func (w *world) start(name string, args ...string) (stop func()) {
	w.Helper()
	cmd := exec.Command(filepath.Join(bin, name), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, w.home
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if name == "kapok" {
			_ = cmd.Process.Signal(os.Interrupt)
		} else {
			_ = cmd.Process.Kill() // a graceful shutdown would wait for its watches
		}
		_ = cmd.Wait()
		if w.Failed() {
			text := out.String()
			w.Logf("%s:\n%s", name, text[max(0, len(text)-5000):])
		}
	}
	w.Cleanup(stop)
	return stop
}

func (w *world) startEtcd() {
	w.Helper()
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = filepath.Join(w.home, "etcd"), "fatal", true
	local := func() []url.URL {
		return []url.URL{{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", freePort(w.T))}}
	}
	config.ListenClientUrls, config.ListenPeerUrls = local(), local()
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
	config.InitialCluster = config.Name + "=" + config.ListenPeerUrls[0].String()
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	w.etcd = config.ListenClientUrls[0].String()
}

// wardle starts the extension server, which connects to Kapok as the user of a kubeconfig.
func (w *world) wardle(kubeconfig string) (stop func()) {
	w.Helper()
	return w.start("wardle", "--secure-port", fmt.Sprint(w.port), "--bind-address", "127.0.0.1",
		"--tls-cert-file", filepath.Join(w.home, "tls.crt"), "--tls-private-key-file", filepath.Join(w.home, "tls.key"),
		"--etcd-servers", w.etcd, "--kubeconfig", kubeconfig,
		"--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// writeCertificate writes tls.crt and tls.key for a host, and returns the authority, which is the
// certificate itself.
func writeCertificate(t *testing.T, dir, host string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert
}

// until waits until a condition holds.
func (w *world) until(what string, holds func() error) {
	w.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			w.Fatalf("not so after %v: %s: %v", patience, what, err)
		}
	}
}

// kubectl runs kubectl with an input, and returns its output.
func (w *world) kubectl(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig, "HOME="+w.home)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// want runs kubectl, which must succeed and print some text.
func (w *world) want(text string, args ...string) string {
	w.Helper()
	out, err := w.kubectl("", args...)
	if err != nil || !strings.Contains(out, text) {
		w.Fatalf("kubectl %s: %v\n%s\nwant %q", strings.Join(args, " "), err, out, text)
	}
	return out
}

func (w *world) apply(text string) {
	w.Helper()
	if out, err := w.kubectl(text, "apply", "-f", "-"); err != nil {
		w.Fatalf("apply %s: %v\n%s", text, err, out)
	}
}

// registration registers the server under an external name, because Kapok has no cluster network.
func (w *world) register() {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: wardle}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: wardle}
spec: {type: ExternalName, externalName: localhost, ports: [{port: 443, targetPort: %d}]}
`, w.port))
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		w.apply(fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %s.wardle.example.com}
spec:
  group: wardle.example.com
  version: %[1]s
  groupPriorityMinimum: 1000
  versionPriority: 15
  caBundle: %s
  service: {name: api, namespace: wardle}
`, version, base64.StdEncoding.EncodeToString(w.ca)))
	}
}

func (w *world) available(status string) {
	w.Helper()
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		w.until(version+" is available: "+status, func() error {
			out, err := w.kubectl("", "get", "apiservice", version+".wardle.example.com", "-o", `jsonpath={.status.conditions[?(@.type=="Available")]}`)
			if err == nil && !strings.Contains(out, `"status":"`+status+`"`) {
				err = errors.New(out)
			}
			return err
		})
	}
}

// TestFlunders checks that flunders work like resources of Kapok as long as their server runs.
func TestFlunders(t *testing.T) {
	w := start(t)
	w.register()
	w.available("False")
	if out, err := w.kubectl("", "get", "--raw", "/apis/wardle.example.com/v1alpha1"); err == nil || !strings.Contains(out, "the server is currently unable to handle the request") {
		t.Errorf("without a server: %v\n%s", err, out)
	}
	stop := w.wardle(w.kubeconfig)
	w.available("True")

	w.until("discovery", func() error {
		out, err := w.kubectl("", "api-resources", "--api-group", "wardle.example.com")
		if err == nil && !strings.Contains(out, "flunders") {
			err = errors.New(out)
		}
		return err
	})
	w.until("a description", func() error {
		out, err := w.kubectl("", "explain", "flunder.spec.referenceType")
		if err == nil && !strings.Contains(out, "FIELD: referenceType") {
			err = errors.New(out)
		}
		return err
	})
	w.apply("{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: one, labels: {a: b}}, spec: {reference: other}}")
	w.want("one", "get", "flunders", "-l", "a=b")
	w.want("other", "get", "flunders.v1beta1.wardle.example.com", "one", "-o", "yaml")
	w.want("flunder", "annotate", "flunder", "one", "x=y", "-o", "name", "--dry-run=server", "--overwrite")

	// A watch receives new objects.
	watch := exec.Command(filepath.Join(bin, "kubectl"), "get", "flunders", "--watch", "-o", "name")
	watch.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig, "HOME="+w.home)
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string)
	go func() {
		defer close(seen)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			seen <- lines.Text()
		}
	}()
	await := func(name string) {
		t.Helper()
		select {
		case text := <-seen:
			if !strings.Contains(text, name) {
				t.Errorf("the watch shows %q, want %s", text, name)
			}
		case <-time.After(patience):
			t.Fatalf("the watch does not show %s", name)
		}
	}
	await("one")
	w.apply("{apiVersion: wardle.example.com/v1beta1, kind: Flunder, metadata: {name: two}, spec: {flunderReference: other, referenceType: Flunder}}")
	await("two")
	_ = watch.Process.Kill()
	for range seen {
	}
	_ = watch.Wait()

	w.want("deleted", "delete", "flunder", "one")
	stop()
	w.available("False")
	if out, err := w.kubectl("", "get", "flunders.v1alpha1.wardle.example.com"); err == nil {
		t.Errorf("without its server there is %s", out)
	}
	w.want("default", "get", "namespaces") // all other requests still work
	w.wardle(w.kubeconfig)
	w.available("True")
	w.until("what was there is there again", func() error {
		out, err := w.kubectl("", "get", "flunders", "-o", "name")
		if err == nil && out != "flunder.wardle.example.com/two" {
			err = errors.New(out)
		}
		return err
	})
	if out, err := w.kubectl("", "delete", "apiservice", "v1alpha1.wardle.example.com", "v1beta1.wardle.example.com"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.until("the group is gone", func() error {
		if out, err := w.kubectl("", "get", "--raw", "/apis/wardle.example.com"); err == nil {
			return errors.New(out)
		}
		return nil
	})
}
