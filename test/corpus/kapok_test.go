package corpus_test

import (
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/corpus"

	"k8s.io/client-go/tools/clientcmd"
)

// TestKapok compares Kapok with kube-apiserver. In-process clients are its admin, and so anonymous
// requests use the socket. Scripts that wait, for watches to end and for revisions that never come,
// take most of the time, and so each script has a server of its own.
func TestKapok(t *testing.T) {
	corpus.Run(t, start, corpus.Options{
		Dir:         "testdata",
		Differences: "../../docs/differences.md",
		Parallel:    true,
	})
}

func start(t *testing.T) corpus.Server {
	server, err := kapok.Start(t.Context(), kapok.Options{
		Listen: "127.0.0.1:0", KeepGarbage: true,
		// The options are those of the oracle.
		Fairness: kapok.FairnessOptions{Unfair: true, MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1},
		Flags:    map[string]string{"v": "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	socket, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return corpus.Server{Config: server.Config(), Anonymous: socket, Compact: server.Compact}
}
