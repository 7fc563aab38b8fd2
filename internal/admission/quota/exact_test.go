package quota_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/admission/quota/quotatest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestExact: what is used is what there is, whatever happens at the same time.
func TestExact(t *testing.T) {
	for name, options := range map[string]kapok.Options{
		"memory": {},
		"disk":   {DataDir: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := kapok.Start(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			config := server.Config()
			quotatest.Exact(t, uint64(time.Now().UnixNano()), 3, 60, config, config)
		})
	}
}
