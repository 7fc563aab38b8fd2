package quota_test

import (
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/internal/admission/quota/quotatest"
	"github.com/kapok-dev/kapok/test/seeds"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestExact checks that the used amounts are exact under concurrent writes.
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
			quotatest.Exact(t, seeds.Of(t), 3, 60, config, config)
		})
	}
}
