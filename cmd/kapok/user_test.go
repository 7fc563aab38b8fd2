package main

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestUserAdd: who was added while the server runs, or before, can log in.
func TestUserAdd(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	server, err := kapok.Start(t.Context(), kapok.Options{DataDir: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"user", "add"}, args...)
		if !slices.Contains(args, "--kubeconfig") {
			args = append(args, "--data-dir", data)
		}
		if code := run(args, &out, &errs); code != want {
			t.Fatalf("%v: code %d, want %d: %s", args, code, want, errs.String())
		}
		return out.String(), errs.String()
	}
	reach := func(kubeconfig []byte, want int) {
		t.Helper()
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		answer, err := client.Get(config.Host + "/api/v1/namespaces/default/pods")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("answer %s, want %d", answer.Status, want)
		}
	}

	stdout, stderr := add(0, "alice", "--group", "dev", "--group", "it's ops")
	if !strings.Contains(stderr, "alice can log in until ") || !strings.Contains(stderr, "kubectl create rolebinding NAME --clusterrole edit --group dev ") {
		t.Errorf("it says %s", stderr)
	}
	reach([]byte(stdout), http.StatusForbidden)
	config, err := clientcmd.Load([]byte(stdout))
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != "alice@kapok" || len(config.AuthInfos) != 1 || strings.Count(stdout, "key-data") != 1 {
		t.Errorf("got %s", stdout)
	}
	pair, err := tls.X509KeyPair(config.AuthInfos["alice"].ClientCertificateData, config.AuthInfos["alice"].ClientKeyData)
	if err != nil {
		t.Fatal(err)
	}
	if s := pair.Leaf.Subject; s.CommonName != "alice" || !slices.Equal(s.Organization, []string{"dev", "it's ops"}) || pair.Leaf.IsCA {
		t.Errorf("the certificate is of %v", s)
	}
	if left := time.Until(pair.Leaf.NotAfter); left < 29*24*time.Hour || left > 31*24*time.Hour {
		t.Errorf("it holds for %v", left)
	}

	file := filepath.Join(dir, "root.kubeconfig")
	stdout, _ = add(0, "root", "--group", "system:masters", "--allow-admin", "--output", file, "--expires", "1h")
	if !strings.Contains(stdout, "root can log in until") || strings.Contains(stdout, "rolebinding") {
		t.Errorf("it says %s", stdout)
	}
	kubeconfig, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reach(kubeconfig, http.StatusOK)
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, stderr := add(1, "root", "--output", file); !strings.Contains(stderr, "already exists") {
		t.Errorf("it says %s", stderr)
	}

	// Components have the rights that default roles give them, and the group of nodes.
	stdout, stderr = add(0, "system:kube-scheduler", "--allow-component", "--expires", "1h")
	if !strings.Contains(stderr, "binds or deletes any pod") || strings.Contains(stderr, "rolebinding") {
		t.Errorf("it says %s", stderr)
	}
	reach([]byte(stdout), http.StatusOK)
	stdout, stderr = add(0, "system:node:n1.example.com", "--allow-component", "--expires", "1h")
	if !strings.Contains(stderr, "reads the Secrets and makes tokens of the service accounts of pods that are bound to it") {
		t.Errorf("it says %s", stderr)
	}
	reach([]byte(stdout), http.StatusForbidden)
	if config, err := clientcmd.Load([]byte(stdout)); err != nil {
		t.Error(err)
	} else if pair, err := tls.X509KeyPair(config.AuthInfos["system:node:n1.example.com"].ClientCertificateData, config.AuthInfos["system:node:n1.example.com"].ClientKeyData); err != nil {
		t.Error(err)
	} else if s := pair.Leaf.Subject; s.CommonName != "system:node:n1.example.com" || !slices.Equal(s.Organization, []string{"system:nodes"}) {
		t.Errorf("the certificate is of %v", s)
	}
	stdout, _ = add(0, "system:kube-controller-manager", "--allow-component", "--kubeconfig", filepath.Join(data, "kubeconfig"), "--expires", "1h")
	reach([]byte(stdout), http.StatusOK)

	// As an admin of a server whose directory is elsewhere.
	admin := filepath.Join(data, "kubeconfig")
	stdout, stderr = add(0, "carol", "--kubeconfig", admin, "--group", "dev", "--expires", "1h")
	if !strings.Contains(stderr, "carol can log in until ") {
		t.Errorf("it says %s", stderr)
	}
	reach([]byte(stdout), http.StatusForbidden)
	if _, stderr := add(1, "carol", "--kubeconfig", admin, "--expires", "1m"); !strings.Contains(stderr, "spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 600 seconds (10 minutes)") {
		t.Errorf("it says %s", stderr)
	}

	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, stderr := add(1, "bob"); !strings.Contains(stderr, "does not exist: start the server") {
		t.Errorf("it says %s", stderr)
	}
	stdout, _ = add(0, "bob", "--server", "https://kapok.example:6443")
	if config, err := clientcmd.Load([]byte(stdout)); err != nil || config.Clusters["kapok"].Server != "https://kapok.example:6443" {
		t.Errorf("%v %s", err, stdout)
	}
}

func TestUserAddRefuses(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{}, 2, "NAME is missing"},
		{[]string{""}, 2, "must not be empty"},
		{[]string{"system:admin"}, 2, "names with the prefix system:"},
		{[]string{"system:kube-scheduler"}, 2, "it reads all pods and nodes, and binds or deletes any pod): set --allow-component"},
		{[]string{"system:node:n1"}, 2, "set --allow-component"},
		{[]string{"system:admin", "--allow-component"}, 2, "is not a component: want system:kube-scheduler, system:kube-controller-manager, system:kube-proxy or system:node:NAME"},
		{[]string{"alice", "--allow-component"}, 2, "is not a component"},
		{[]string{"system:node:", "--allow-component"}, 2, "is not a valid node name"},
		{[]string{"system:node:A_b", "--allow-component"}, 2, "is not a valid node name"},
		{[]string{"system:node:" + strings.Repeat("a", 60), "--allow-component"}, 2, "must not be longer than 64 bytes"},
		{[]string{"system:kube-proxy", "--allow-component", "--group", "system:masters"}, 2, "has its own groups"},
		{[]string{"system:kube-proxy", "--allow-component", "--expires", "0s"}, 2, "--expires"},
		{[]string{"system:kube-proxy", "--allow-component", "--allow-admin"}, 2, "exclude each other"},
		{[]string{"kubernetes-admin"}, 2, "is the admin"},
		{[]string{" alice"}, 2, "without leading or trailing space"},
		{[]string{"al\nice"}, 2, "must be printable"},
		{[]string{strings.Repeat("a", 65)}, 2, "must not be longer than 64 bytes"},
		{[]string{"alice", "--group", "system:masters"}, 2, "--allow-admin"},
		{[]string{"alice", "--group", "system:nodes"}, 2, "names with the prefix system:"},
		{[]string{"alice", "--group", "system:nodes", "--allow-admin"}, 2, "names with the prefix system:"},
		{[]string{"alice", "--group", ""}, 2, "must not be empty"},
		{[]string{"alice", "--expires", "0s"}, 2, "--expires"},
		{[]string{"alice", "--server", "http://x"}, 2, "want https://HOST:PORT"},
		{[]string{"alice", "--output", ""}, 2, "--output"},
		{[]string{"alice", "--kubeconfig", "x", "--allow-admin"}, 2, "exclude each other"},
		{[]string{"alice", "--kubeconfig", "/nowhere/at/all"}, 1, "/nowhere does not exist"},
		{[]string{"alice", "--data-dir", "/nowhere/at/all"}, 1, "the data directory of a kapok up that ran"},
	} {
		var out, errs bytes.Buffer
		if code := run(append([]string{"user", "add"}, tc.args...), &out, &errs); code != tc.code || !strings.Contains(errs.String(), tc.text) {
			t.Errorf("%q: code %d, %s\nwant %d, %s", tc.args, code, errs.String(), tc.code, tc.text)
		}
		if out.Len() > 0 {
			t.Errorf("%q: %s", tc.args, out.String())
		}
	}
}
