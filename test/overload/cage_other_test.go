//go:build !linux

package overload

import "testing"

func newCage(t *testing.T) cage {
	t.Log("no control groups on this system: the server gets GOMAXPROCS=1 and GOMEMLIMIT=400MiB, and its memory is not watched")
	return runtimeLimits{}
}

// preferred starts a process.
func preferred(start func() error) error { return start() }

// anonymous returns 0, as the anonymous memory of a process is unknown.
func anonymous(int) uint64 { return 0 }
