package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestNode creates, lists, uses and deletes bootstrap tokens.
func TestNode(t *testing.T) {
	data := t.TempDir()
	server, err := kapok.Start(t.Context(), kapok.Options{
		DataDir: data, Listen: "127.0.0.1:0", Authentication: kapok.AuthenticationOptions{BootstrapTokens: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	node := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"node"}, append(args, "--kubeconfig", filepath.Join(data, "kubeconfig"))...)
		if code := run(args, &out, &errs); code != want {
			t.Fatalf("%v: code %d, want %d: %s", args, code, want, &errs)
		}
		return out.String() + errs.String()
	}
	token := strings.TrimSpace(node(0, "token", "create"))
	id, private, _ := strings.Cut(token, ".")
	if list := node(0, "token", "list"); !strings.Contains(list, "\n"+id+" ") || strings.Contains(list, private) {
		t.Errorf("the list with token %s is\n%s", token, list)
	}
	for _, args := range [][]string{{"--token", token}, {}} { // an existing token, and a new one
		script := node(0, append([]string{"join"}, args...)...)
		root := t.TempDir()
		kubelet := filepath.Join(root, "kubelet")
		if err := os.WriteFile(kubelet, []byte("#!/bin/sh\necho \"$@\" > \"$ROOT/arguments\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "sh")
		c.Stdin, c.Env = strings.NewReader(script), append(os.Environ(), "ROOT="+root, "PATH="+root+":"+os.Getenv("PATH"))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("the script: %v\n%s", err, out)
		}
		arguments, err := os.ReadFile(filepath.Join(root, "arguments"))
		if err != nil || !strings.Contains(string(arguments), "--bootstrap-kubeconfig "+root+"/etc/kubernetes/bootstrap-kubelet.conf") {
			t.Errorf("the kubelet's arguments are %s (%v)", arguments, err)
		}
		if data, err := os.ReadFile(filepath.Join(root, "var/lib/kubelet/config.yaml")); string(data) != kubeletConfig {
			t.Errorf("the kubelet's configuration is %q (%v)", data, err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(root, "etc/kubernetes/bootstrap-kubelet.conf"))
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		// The role system:node-bootstrapper allows certificate requests of the user's own only.
		for path, want := range map[string]int{"/apis/certificates.k8s.io/v1/certificatesigningrequests": http.StatusOK, "/api/v1/nodes": http.StatusForbidden} {
			got, err := client.Get(config.Host + path)
			if err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
			if got.StatusCode != want {
				t.Errorf("%s with the token: %s, want %d", path, got.Status, want)
			}
		}
	}
	node(0, "token", "delete", id)
	if list := node(0, "token", "list"); strings.Contains(list, id) {
		t.Errorf("the list without token %s is\n%s", id, list)
	}
	if out := node(exitFailure, "token", "delete", id); !strings.Contains(out, "not found") {
		t.Errorf("deleting the token again: %s", out)
	}
}

// TestNodeUsage checks invalid command lines, and that a token is not repeated in a message.
func TestNodeUsage(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"token create --ttl 0s", "--ttl must be at least 1s"},
		{"token create x", "unexpected argument"},
		{"token delete", "ID is missing"},
		{"token delete abcdef.0123456789abcdef", "want the ID of a token"},
		{"join --token abcdef.0123456789abcde", "--token: want ID.SECRET"},
		{"join --token=", "--token: want ID.SECRET"},
		{"join --server http://host", "want https://HOST:PORT"},
		{"join --ttl -1h", "--ttl must be at least 1s"},
		{"join --token abcdef.0123456789abcdef --ttl 1h", "exclude each other"},
		{"tokens", "did you mean kapok node token?"},
	} {
		var out, errs bytes.Buffer
		code := run(append([]string{"node"}, strings.Fields(tc.args)...), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), tc.want) || strings.Contains(errs.String(), "0123456789") {
			t.Errorf("%s: code %d, %s, want %q", tc.args, code, &errs, tc.want)
		}
	}
}
