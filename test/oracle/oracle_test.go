package oracle

import (
	"flag"
	"testing"

	"github.com/go-logr/logr"
	"github.com/kapok-dev/kapok/test/corpus"
	"k8s.io/klog/v2"
)

var record = flag.Lookup("rewrite") // datadriven's flag

// TestOracle asks kube-apiserver. With -rewrite its answers become the golden files; without, they are compared with
// the golden files that are there.
func TestOracle(t *testing.T) {
	klog.SetLogger(logr.Discard())
	server, err := Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	corpus.Run(t, server.Config(), corpus.Options{
		Dir:     "../corpus/testdata",
		Record:  record.Value.String() == "true",
		Compact: server.Compact,
	})
}
