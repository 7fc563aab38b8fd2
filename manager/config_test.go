package manager_test

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/manager"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig writes a kubeconfig with a server, and with another one in a context "other".
func kubeconfig(t *testing.T, path, server string) string {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	for name, host := range map[string]string{"main": server, "other": server + "-other"} {
		cfg.Clusters[name] = &clientcmdapi.Cluster{Server: host}
		cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	cfg.CurrentContext = "main"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGetConfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a cluster
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	if cfg, err := manager.GetConfig(); err == nil {
		t.Errorf("the host is %s without a setting", cfg.Host)
	}
	t.Setenv("KUBECONFIG", kubeconfig(t, filepath.Join(dir, "env"), "https://env"))
	expect := func(context, host string) {
		t.Helper()
		cfg, err := manager.GetConfigWithContext(context)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Host != host || cfg.QPS != -1 {
			t.Errorf("got %s, QPS %v, want %s", cfg.Host, cfg.QPS, host)
		}
	}
	expect("", "https://env")
	expect("other", "https://env-other")
	if _, err := manager.GetConfigWithContext("none"); err == nil {
		t.Error("a context that does not exist is accepted")
	}

	command := flag.CommandLine
	flag.CommandLine = flag.NewFlagSet("test", flag.ContinueOnError)
	defer func() { flag.CommandLine = command }()
	manager.RegisterFlags(nil)
	manager.RegisterFlags(nil) // a second call has no effect
	expect("", "https://env")
	if err := flag.CommandLine.Parse([]string{"--kubeconfig", kubeconfig(t, filepath.Join(dir, "flag"), "https://flag")}); err != nil {
		t.Fatal(err)
	}
	expect("", "https://flag")
	expect("other", "https://flag-other")
}

// TestLog checks that Log writes to the present default of slog.
func TestLog(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	early := manager.Log.WithName("setup").WithValues("a", 1)
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	early.Info("hello", "b", 2)
	early.V(1).Info("too much")
	if got := out.String(); !strings.Contains(got, "msg=hello") || !strings.Contains(got, "a=1 logger=setup b=2") || strings.Contains(got, "too much") {
		t.Errorf("got %s", got)
	}
	var other bytes.Buffer
	manager.SetLogger(textLogger(&other))
	early.Info("again")
	if got := other.String(); !strings.Contains(got, "again") {
		t.Errorf("got %s", got)
	}
}
