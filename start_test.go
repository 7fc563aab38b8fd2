package kapok_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// TestFirstStart: the first server of a process does not prepare for all kinds that there are, which would take tens of
// milliseconds of each test binary. What it allocates is what says so, as times depend on what else the machine does.
func TestFirstStart(t *testing.T) {
	const alone = "KAPOK_TEST_FIRST_START"
	if os.Getenv(alone) == "" { // in this process others have been first
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFirstStart$")
		c.Env = append(os.Environ(), alone+"=yes")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := kapok.Start(context.Background(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	const most = 6 << 20 // 3 MB; 22 if something is made for each kind
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("the first start allocates %d KB, want at most %d", n>>10, most>>10)
	}
}
