package derive_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/generate"
)

// TestGenerate compares the outputs for a kind with the files in testdata/want. With KAPOK_UPDATE=1
// it writes them.
func TestGenerate(t *testing.T) {
	t.Chdir("testdata")
	for _, args := range [][]string{{"docs", "jsonschema", "samples", "typescript"}, {"docs:format=html"}} {
		result, err := generate.Run(t.Context(), generate.Options{
			Args: append(args, "./api/...", "output:dir=want"), Check: os.Getenv("KAPOK_UPDATE") == "",
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Written) > 0 {
			t.Errorf("not current: %v", result.Written)
		}
	}
	_, err := generate.Run(t.Context(), generate.Options{Args: []string{"docs:format=pdf", "./api/..."}})
	if err == nil || !strings.Contains(err.Error(), `docs: format "pdf": must be markdown or html`) {
		t.Errorf("the error is %v", err)
	}
}
