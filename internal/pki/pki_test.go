package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/pki"

	"k8s.io/client-go/tools/clientcmd"
)

const day = 24 * time.Hour

var files = []string{"ca.crt", "ca.key", "server.pem", "admin.pem", "token"}

func open(t *testing.T, dir string, hosts []string, now time.Time) *pki.Credentials {
	t.Helper()
	c, err := pki.Open(dir, nil, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(data)
	}
	return all
}

// TestReuseAndRenewal checks what a second start keeps, and what it renews.
func TestReuseAndRenewal(t *testing.T) {
	start := time.Now()
	hosts := []string{"localhost", "127.0.0.1"}
	damage := func(name, content string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name    string
		between func(t *testing.T, dir string)
		hosts   []string
		later   time.Duration
		renewed string // the files that must differ after the second start
		early   bool   // the authority is not valid yet, and still kept
		err     string
	}{
		{name: "at once", hosts: hosts},
		{name: "after some months", hosts: hosts, later: 300 * day},
		{name: "fewer hosts", hosts: hosts[:1]},
		{name: "another host", hosts: append(hosts, "10.0.0.7"), renewed: "server.pem"},
		{name: "another name", hosts: append(hosts, "example.com"), renewed: "server.pem"},
		{name: "near the end of certificates", hosts: hosts, later: 400 * day, renewed: "server.pem admin.pem"},
		{name: "near the end of the authority", hosts: hosts, later: 9 * 365 * day, renewed: "ca.crt ca.key server.pem admin.pem"},
		{name: "clock behind", hosts: hosts, later: -7 * time.Hour, renewed: "server.pem admin.pem"},
		{name: "clock of another year", hosts: hosts, later: -400 * day, renewed: "server.pem admin.pem", early: true},
		{name: "authority removed", hosts: hosts, renewed: "ca.crt ca.key server.pem admin.pem",
			between: func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "ca.crt")) }},
		{name: "token removed", hosts: hosts, renewed: "token",
			between: func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "token")) }},
		{name: "token emptied", hosts: hosts, renewed: "token", between: damage("token", "\n")},
		{name: "garbage", hosts: hosts, between: damage("server.pem", "garbage"), err: "server.pem: it must have a certificate and an ECDSA key in PEM (remove the file"},
		{name: "emptied", hosts: hosts, between: damage("ca.crt", ""), err: "ca.crt: no certificate in PEM"},
		{name: "emptied key", hosts: hosts, between: damage("ca.key", ""), err: "ca.key: no ECDSA key in PEM"},
		{name: "key removed", hosts: hosts, err: "ca.crt is missing: restore ca.key, or remove",
			between: func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "ca.key")) }},
		{name: "another authority's key", hosts: hosts, err: "ca.key: the key does not belong to the certificate in ca.crt",
			between: func(t *testing.T, dir string) {
				_, key, _ := strings.Cut(contents(t, dir)["server.pem"], "-----BEGIN PRIVATE")
				damage("ca.key", "-----BEGIN PRIVATE"+key)(t, dir)
			}},
		{name: "a copy of the certificate under its old name", hosts: hosts,
			between: func(t *testing.T, dir string) { damage("ca.pem", contents(t, dir)["ca.crt"])(t, dir) }},
		{name: "another's key", hosts: hosts, err: "admin.pem: the key does not belong to the certificate",
			between: func(t *testing.T, dir string) {
				all := contents(t, dir)
				cert, _, _ := strings.Cut(all["admin.pem"], "-----BEGIN PRIVATE")
				_, key, _ := strings.Cut(all["server.pem"], "-----BEGIN PRIVATE")
				damage("admin.pem", cert+"-----BEGIN PRIVATE"+key)(t, dir)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir, hosts, start)
			before := contents(t, dir)
			if tc.between != nil {
				tc.between(t, dir)
			}
			now := start.Add(tc.later)
			c, err := pki.Open(dir, nil, tc.hosts, now)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			after := contents(t, dir)
			var renewed []string
			for _, name := range files {
				if before[name] != after[name] {
					renewed = append(renewed, name)
				}
			}
			if got := strings.Join(renewed, " "); got != tc.renewed {
				t.Errorf("renewed %q, want %q", got, tc.renewed)
			}
			if !tc.early {
				verify(t, c, tc.hosts, now)
			}
			if tc.later < 8*365*day { // as if the clock had been wrong and is set right
				if _, err := c.Renew(start); err != nil {
					t.Error(err)
				}
				verify(t, c, tc.hosts, start)
			}
		})
	}
}

// verify checks that clients and server trust each other.
func verify(t *testing.T, c *pki.Credentials, hosts []string, now time.Time) {
	t.Helper()
	serving := c.ServingCertificate()
	for _, host := range hosts {
		if _, err := serving.Leaf.Verify(x509.VerifyOptions{Roots: c.ClientCAs(), DNSName: host, CurrentTime: now}); err != nil {
			t.Errorf("serving %s: %v", host, err)
		}
	}
	data, err := c.Kubeconfig("127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{
		Roots: c.ClientCAs(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		t.Errorf("admin: %v", err)
	}
	if s := pair.Leaf.Subject; s.CommonName != "kubernetes-admin" || len(s.Organization) != 1 || s.Organization[0] != "system:masters" {
		t.Errorf("admin is %v", s)
	}
}

func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "a", "pki")
	check := func() {
		t.Helper()
		err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o077)
			if strings.HasSuffix(path, ".crt") {
				want = 0o022 // any user may read certificates
			}
			if others := info.Mode().Perm() & want; others != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir, nil, time.Now())
	check()
	for _, name := range files {
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, dir, nil, time.Now())
	check()
}

func TestInMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	hosts := pki.Hosts("127.0.0.1")
	a, b := open(t, "", hosts, time.Now()), open(t, "", hosts, time.Now())
	verify(t, a, hosts, time.Now())
	if a.Token() == b.Token() || len(a.Token()) < 40 {
		t.Errorf("tokens %q, %q", a.Token(), b.Token())
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("files left behind: %v, %v", entries, err)
	}
}

func TestHosts(t *testing.T) {
	for _, tc := range []struct{ listen, want string }{
		{"127.0.0.1", "127.0.0.1 ::1 kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local localhost"},
		{"10.1.2.3", "10.1.2.3"},
		{"fe80::1%eth0", "fe80::1"},
		{"kapok.example", "kapok.example"},
		{"", "127.0.0.1"},
		{"0.0.0.0", "127.0.0.1"},
		{"::", "::1"},
	} {
		got := " " + strings.Join(pki.Hosts(tc.listen), " ") + " "
		for want := range strings.FieldsSeq(tc.want) {
			if !strings.Contains(got, " "+want+" ") {
				t.Errorf("Hosts(%q) = %s: no %s", tc.listen, got, want)
			}
		}
		for _, unwanted := range []string{"  ", " 0.0.0.0 ", " :: "} {
			if strings.Contains(got, unwanted) {
				t.Errorf("Hosts(%q) = %s: has %q", tc.listen, got, unwanted)
			}
		}
	}
}

func TestKubeconfigAddress(t *testing.T) {
	c := open(t, "", nil, time.Now())
	for address, want := range map[string]string{
		"127.0.0.1:6443": "https://127.0.0.1:6443",
		"0.0.0.0:8443":   "https://127.0.0.1:8443",
		"[::]:8443":      "https://127.0.0.1:8443",
		"[::1]:1":        "https://[::1]:1",
		"10.0.0.7:6443":  "https://10.0.0.7:6443",
	} {
		data, err := c.Kubeconfig(address)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.Load(data)
		if err != nil {
			t.Fatal(err)
		}
		if config.CurrentContext != "kapok" || config.Clusters["kapok"].Server != want {
			t.Errorf("%s: context %s, server %s, want %s", address, config.CurrentContext, config.Clusters["kapok"].Server, want)
		}
	}
}

func TestClearKubeconfig(t *testing.T) {
	dir := t.TempDir()
	ours, err := open(t, "", nil, time.Now()).Kubeconfig("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, content string
		keep          bool
	}{
		{"ours", string(ours), false},
		{"empty", "", false},
		{"users", "apiVersion: v1\nkind: Config\n", true},
	} {
		path := filepath.Join(dir, tc.name)
		if err := pki.WriteFile(path, []byte(tc.content)); err != nil {
			t.Fatal(err)
		}
		err := pki.ClearKubeconfig(path)
		data, readErr := os.ReadFile(path)
		if tc.keep && (err == nil || !bytes.Equal(data, []byte(tc.content))) {
			t.Errorf("%s: error %v, content %q", tc.name, err, data)
		}
		if !tc.keep && (err != nil || !os.IsNotExist(readErr)) {
			t.Errorf("%s: error %v, still there: %v", tc.name, err, readErr)
		}
	}
	missing := filepath.Join(dir, "new", "kubeconfig")
	if err := pki.ClearKubeconfig(missing); err != nil {
		t.Error(err)
	}
	if err := pki.WriteFile(missing, ours); err != nil {
		t.Errorf("the directory was not created: %v", err)
	}
}

func TestWriteFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil { // a file cannot replace a directory
		t.Fatal(err)
	}
	if err := pki.WriteFile(path, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestFrontProxy checks that the front proxy has an authority of its own, and keeps it.
func TestFrontProxy(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	c := open(t, dir, []string{"localhost"}, now)
	first, err := pki.OpenFrontProxy(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := pki.OpenFrontProxy(dir, now.Add(300*day))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.AuthorityPEM(), again.AuthorityPEM()) || !bytes.Equal(first.Certificate().Certificate[0], again.Certificate().Certificate[0]) {
		t.Error("the second start creates new certificates")
	}
	later, err := pki.OpenFrontProxy(dir, now.Add(400*day))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.AuthorityPEM(), later.AuthorityPEM()) || bytes.Equal(first.Certificate().Certificate[0], later.Certificate().Certificate[0]) {
		t.Error("near its end the certificate is not renewed, or its authority is")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(first.AuthorityPEM())
	leaf := later.Certificate().Leaf
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: usages, CurrentTime: now.Add(400 * day)}); err != nil || leaf.Subject.CommonName != pki.FrontProxyName {
		t.Errorf("the certificate of %s: %v", leaf.Subject, err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: c.ClientCAs(), KeyUsages: usages, CurrentTime: now.Add(400 * day)}); err == nil {
		t.Error("the front proxy's certificate is valid for a user")
	}
}
