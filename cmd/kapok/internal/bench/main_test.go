package bench

import (
	"context"
	"testing"

	"github.com/kapok-dev/kapok"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that listens with TLS.
func serve(t *testing.T) *rest.Config {
	t.Helper()
	s, err := kapok.Start(context.WithoutCancel(t.Context()), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return config
}
