package server_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/kmsplugin"
)

// TestKMS runs servers on one data directory, with a KMS plugin that starts after the first one,
// changes its key between servers, and is gone in the end.
func TestKMS(t *testing.T) {
	const secrets, configMaps = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/configmaps"
	dir := t.TempDir()
	sockets, err := os.MkdirTemp("", "kms") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	socket := filepath.Join(sockets, "s")
	config := filepath.Join(t.TempDir(), "encryption.yaml")
	text := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"+
		"- resources: [secrets]\n  providers:\n  - kms: {apiVersion: v2, name: vault, endpoint: 'unix://%s', timeout: 200ms}\n", socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options := kapok.Options{DataDir: dir, EncryptionConfig: config, Logger: slog.New(slog.DiscardHandler)}
	run := func(use func(r *raw)) {
		t.Helper()
		r := startRaw(t, options)
		use(r)
		if err := r.server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	plugin := kmsplugin.New("first")
	var server *kmsplugin.Server
	serve := func() {
		t.Helper()
		if server, err = kmsplugin.Serve(socket, plugin); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
	}
	rewrite := func(r *raw, name string) (written bool) {
		t.Helper()
		before := r.must(200, "GET", secrets+"/"+name, "")
		after := r.must(200, "PUT", secrets+"/"+name, before)
		return resourceVersion.FindString(before) != resourceVersion.FindString(after)
	}

	run(func(r *raw) {
		answer := r.must(500, "POST", secrets, fmt.Sprintf(sealedSecret, "early"))
		for _, want := range []string{
			`"reason":"InternalError"`, `encrypt /registry/secrets/default/early: KMS provider \"vault\": the plugin has not encrypted a seed yet: KMS plugin at unix://` + socket,
		} {
			if !strings.Contains(answer, want) {
				t.Errorf("a write without the plugin: %s\nwant ... %s", answer, want)
			}
		}
		r.must(201, "POST", configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`)
		for path, want := range map[string]int{"/healthz": 500, "/readyz": 500, "/livez": 200, "/healthz/kms-providers": 500, "/livez/kms-providers": 404} {
			if code, answer := r.do("GET", path, ""); code != want {
				t.Errorf("%s without the plugin: %d, want %d: %s", path, code, want, answer)
			}
		}
		serve()
		r.wait("the plugin to be healthy", func() bool {
			code, _ := r.do("GET", "/readyz/kms-providers", "")
			return code == http.StatusOK
		})
		r.must(200, "GET", "/healthz", "")
		r.must(201, "POST", secrets, fmt.Sprintf(sealedSecret, "one"))
		if rewrite(r, "one") {
			t.Error("a fresh object was written again")
		}
		metrics := r.must(200, "GET", "/metrics", "")
		for _, want := range []string{
			`apiserver_envelope_encryption_key_id_hash_total{apiserver_id_hash="",key_id_hash="sha256:`,
			`apiserver_envelope_encryption_dek_source_cache_size{provider_name="vault"} 1`,
			`apiserver_envelope_encryption_kms_operations_latency_seconds_count{grpc_status_code="OK",method_name="/v2.KeyManagementService/Encrypt",provider_name="vault"} 1`,
			`apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds{apiserver_id_hash="",`,
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("no metric %s", want)
			}
		}
	})
	if stored(t, dir, "k8s:enc:kms:v2:vault:") == 0 || stored(t, dir, "UExBSU5URVhUUExBSU5URVhU") > 0 {
		t.Error("the secret is not encrypted")
	}

	plugin.Rotate("second")
	run(func(r *raw) {
		if text := r.must(200, "GET", secrets+"/one", ""); !strings.Contains(text, "UExBSU5URVhUUExBSU5URVhU") {
			t.Error(text)
		}
		if !rewrite(r, "one") || rewrite(r, "one") {
			t.Error("an object with the previous key is written again once")
		}
		r.must(201, "POST", secrets, fmt.Sprintf(sealedSecret, "two"))
		server.Close()
		// Nothing needs the plugin for a while.
		r.must(201, "POST", secrets, fmt.Sprintf(sealedSecret, "three"))
		if list := r.must(200, "GET", secrets, ""); strings.Count(list, "UExBSU5URVhUUExBSU5URVhU") != 3 {
			t.Error(list)
		}
	})

	_, err = kapok.Start(t.Context(), options)
	for _, want := range []string{"/registry/secrets/default/", `cannot be decrypted with KMS provider "vault" of ` + config + ": ", "unix://" + socket} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a start without the plugin: %v\nwant ... %s", err, want)
		}
	}
	plugin.Fail(errors.New("not today"))
	serve()
	if _, err = kapok.Start(t.Context(), options); err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("a start with a plugin that fails: %v", err)
	}
	plugin.Fail(nil)
	run(func(r *raw) {
		if list := r.must(200, "GET", secrets, ""); strings.Count(list, "UExBSU5URVhUUExBSU5URVhU") != 3 {
			t.Error(list)
		}
	})
}
