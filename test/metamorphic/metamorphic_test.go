package metamorphic

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	long = flag.Bool("long", false, "300 sequences of 300 operations rather than 3 of 100")
	runs = flag.Int("runs", 0, "how many sequences, if neither 3 nor 300")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var configurations = []Configuration{
	{Name: "memory"},
	{Name: "files", Files: true},
	{Name: "other files", Files: true},
	{Name: "files on a disk that loses what was not synced", Files: true, Lossy: true},
	{Name: "forgetful files", Files: true, Forgetful: true},
}

func TestMetamorphic(t *testing.T) {
	t.Parallel()
	c := Config{Runs: 3, Operations: 100, Configurations: configurations}
	if *long {
		c.Runs, c.Operations = 300, 300
	}
	if *runs > 0 {
		c.Runs = *runs
	}
	Run(t, c)
}
