package auditlog_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/corpus/auditlog"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

// TestKapok checks that Kapok writes the same events as kube-apiserver.
func TestKapok(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditlog.Policy), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := kapok.Start(ctx, kapok.Options{Listen: "127.0.0.1:0", Audit: kapok.AuditOptions{PolicyFile: policy, LogPath: log}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	got, err := auditlog.Ask(ctx, config, log)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/events.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}
