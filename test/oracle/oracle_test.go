package oracle

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/test/corpus"
	"github.com/kapok-dev/kapok/test/corpus/auditlog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

var record = flag.Lookup("rewrite") // datadriven's flag

// TestOracle runs the scripts against kube-apiserver. With -rewrite its responses become the golden
// files; otherwise, they are compared with the present golden files.
func TestOracle(t *testing.T) {
	klog.SetLogger(logr.Discard())
	server, err := Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	t.Run("audit", func(t *testing.T) { recordAudit(t, server) })
	all := corpus.Server{Config: server.Config(), Compact: server.Compact}
	corpus.Run(t, func(*testing.T) corpus.Server { return all }, corpus.Options{
		Dir:    "../corpus/testdata",
		Record: record.Value.String() == "true",
	})
}

// TestEmulated is TestOracle for earlier releases, which kube-apiserver emulates in processes of
// their own.
func TestEmulated(t *testing.T) {
	start := func(t *testing.T) corpus.Server {
		config, stop, err := StartServer(t.TempDir(), "--emulated-version="+corpus.Release(t.Name()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return corpus.Server{Config: config}
	}
	corpus.Run(t, start, corpus.Options{Dir: "../corpus/testdata/emulated", Record: record.Value.String() == "true"})
}

// TestPlugins is TestOracle for admission plugins that are off by default, and for admission from
// files.
func TestPlugins(t *testing.T) {
	start := func(t *testing.T) corpus.Server {
		a, dir := corpus.AdmissionOf(t), t.TempDir()
		if a.Closed { // the objects of every cluster must exist
			_, stop, err := StartServer(dir)
			if err != nil {
				t.Fatal(err)
			}
			stop()
		}
		flags := []string{"--enable-admission-plugins=" + strings.Join(a.Enable, ",")}
		if a.ConfigFile != "" {
			flags = append(flags, "--admission-control-config-file="+a.ConfigFile)
		}
		config, stop, err := StartServer(dir, flags...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return corpus.Server{Config: config, Namespace: a.Namespace()}
	}
	corpus.Run(t, start, corpus.Options{Dir: "../corpus/testdata/plugins", Record: record.Value.String() == "true"})
}

// recordAudit does for the audit log what corpus.Run does for responses.
func recordAudit(t *testing.T, server *Server) {
	const golden = "../corpus/auditlog/testdata/events.txt"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := auditlog.Ask(ctx, server.Config(), server.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if record.Value.String() == "true" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("kube-apiserver's audit log is another one than %s:\n%s", golden, got)
	}
}
