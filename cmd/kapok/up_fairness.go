package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// fairnessFlags are the flags that bound how much is done at a time, under the names that they have in kube-apiserver.
type fairnessFlags struct {
	reading, writing int
	fair             bool
	watches          int
}

func (o *fairnessFlags) add(f *pflag.FlagSet) {
	f.IntVar(&o.reading, "max-requests-inflight", 400, "how many requests that read are served at a time; with --max-mutating-requests-inflight, what priority levels share. 0: none, or no bound without priority and fairness")
	f.IntVar(&o.writing, "max-mutating-requests-inflight", 200, "how many requests that write are served at a time")
	f.BoolVar(&o.fair, "enable-priority-and-fairness", true, "serve requests as FlowSchemas and PriorityLevelConfigurations say")
	f.IntVar(&o.watches, "max-watches-per-user", 10_000, "how many watches one user may have open; 0: no bound")
}

func (o *fairnessFlags) options() kapok.FairnessOptions {
	return kapok.FairnessOptions{
		MaxRequestsInFlight:         orNone(o.reading),
		MaxMutatingRequestsInFlight: orNone(o.writing),
		Unfair:                      !o.fair,
		MaxWatchesPerUser:           orNone(o.watches),
	}
}

// orNone takes 0 for what options have a negative number for.
func orNone(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}
