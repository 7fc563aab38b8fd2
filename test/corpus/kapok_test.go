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

// TestEmulated compares earlier releases with a kube-apiserver that behaves as one. The name of a
// script ends in the release.
func TestEmulated(t *testing.T) {
	start := func(t *testing.T) corpus.Server {
		return startWith(t, func(o *kapok.Options) { o.EmulatedVersion = corpus.Release(t.Name()) })
	}
	corpus.Run(t, start, corpus.Options{Dir: "testdata/emulated", Differences: "../../docs/differences.md", Parallel: true})
}

// TestPlugins compares admission plugins that are off by default, and admission from files.
func TestPlugins(t *testing.T) {
	start := func(t *testing.T) corpus.Server {
		a := corpus.AdmissionOf(t)
		server := startWith(t, func(o *kapok.Options) { o.Admission.Enable, o.Admission.ConfigFile = a.Enable, a.ConfigFile })
		server.Namespace = a.Namespace()
		return server
	}
	corpus.Run(t, start, corpus.Options{Dir: "testdata/plugins", Differences: "../../docs/differences.md", Parallel: true})
}

func start(t *testing.T) corpus.Server { return startWith(t, func(*kapok.Options) {}) }

func startWith(t *testing.T, change func(o *kapok.Options)) corpus.Server {
	o := kapok.Options{
		Listen: "127.0.0.1:0", KeepGarbage: true,
		// The options are those of the oracle.
		Fairness: kapok.FairnessOptions{Unfair: true, MaxRequestsInFlight: -1, MaxMutatingRequestsInFlight: -1},
		Flags:    map[string]string{"v": "0"},
	}
	change(&o)
	server, err := kapok.Start(t.Context(), o)
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
