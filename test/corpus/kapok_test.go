package corpus_test

import (
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/corpus"

	"k8s.io/client-go/tools/clientcmd"
)

// TestKapok compares Kapok with kube-apiserver. In-process clients are its admin, and so anonymous
// requests use the socket.
func TestKapok(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{
		Listen: "127.0.0.1:0", KeepGarbage: true,
		// The options are those of the oracle.
		Fairness: kapok.FairnessOptions{Unfair: true, MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	socket, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	corpus.Run(t, server.Config(), corpus.Options{
		Dir:         "testdata",
		Differences: "../../docs/differences.md",
		Compact:     server.Compact,
		Anonymous:   socket,
	})
}
