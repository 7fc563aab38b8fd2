package main

import (
	"strconv"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fairnessFlags adds the flags that bound concurrent requests, under their names in kube-apiserver.
func fairnessFlags(f *pflag.FlagSet, o *kapok.FairnessOptions) {
	o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight, o.MaxWatchesPerUser = 400, 200, 10_000
	f.Var((*bound)(&o.MaxRequestsInFlight), "max-requests-inflight", "maximum number of concurrent reads. With priority and fairness, the priority levels share the sum of this and --max-mutating-requests-inflight; with --enable-priority-and-fairness=false, 0 means no limit")
	f.Var((*bound)(&o.MaxMutatingRequestsInFlight), "max-mutating-requests-inflight", "maximum number of concurrent writes")
	f.Var((*negated)(&o.Unfair), "enable-priority-and-fairness", "limit requests according to FlowSchemas and PriorityLevelConfigurations")
	f.Lookup("enable-priority-and-fairness").NoOptDefVal = "true"
	f.Var((*quantity)(&o.MaxRequestMemory), "max-request-memory", "memory that all large requests together may use, a quantity like 512Mi. 0 means a quarter of GOMEMLIMIT (at least 128Mi), or 256Mi if GOMEMLIMIT is not set")
	f.Var((*bound)(&o.MaxWatchesPerUser), "max-watches-per-user", "maximum number of open watches of one user; 0: no limit")
}

// bound is a flag for an option that is negative where the flag is 0.
type bound int

func (b *bound) Type() string   { return "int" }
func (b *bound) String() string { return strconv.Itoa(max(0, int(*b))) }

func (b *bound) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, strconv.IntSize)
	if err != nil {
		return err
	}
	if *b = bound(n); n <= 0 {
		*b = -1
	}
	return nil
}

// quantity is a flag for a number of bytes, like 512Mi.
type quantity int64

func (q *quantity) Type() string { return "quantity" }
func (q *quantity) String() string {
	return resource.NewQuantity(int64(*q), resource.BinarySI).String()
}

func (q *quantity) Set(text string) error {
	parsed, err := resource.ParseQuantity(text)
	if err == nil {
		*q = quantity(parsed.Value())
	}
	return err
}
