package corpus_test

import (
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/test/corpus"
)

// TestKapok compares Kapok with kube-apiserver.
func TestKapok(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	corpus.Run(t, server.Config(), corpus.Options{
		Dir:         "testdata",
		Differences: "differences.txt",
	})
}
