package overload

import (
	"os"
	"os/exec"
	"time"
)

// A cage limits a server's memory and processor time.
type cage interface {
	// start starts a process inside.
	start(*exec.Cmd) error
	// floor is the minimum for an idle 99th percentile. A disk that is slow for a moment, or
	// another program on the machine, takes as long.
	floor() time.Duration
	// remove removes the cage after its process has ended.
	remove()
}

// runtimeLimits is a cage that only sets limits of the Go runtime.
type runtimeLimits struct{}

func (runtimeLimits) start(c *exec.Cmd) error {
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOMEMLIMIT=400MiB")
	return preferred(c.Start)
}

// The server competes with the attackers, and with other programs.
func (runtimeLimits) floor() time.Duration { return 50 * time.Millisecond }

func (runtimeLimits) remove() {}
