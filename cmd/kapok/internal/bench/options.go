package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Options configure a run. Only Config is required.
type Options struct {
	// Config reaches the server. Its QPS and Burst are ignored.
	Config *rest.Config

	// Measures are the names of the measures to take, in any order. Default: all, except for memory
	// if there are no Processes.
	Measures []string

	// Scale is the size of the load. Default: Full.
	Scale Scale

	// Duration is the time for each measure without a fixed number of operations. Default: that of
	// the scale; at least MinDuration.
	Duration time.Duration

	// OwnConnections gives each worker its own connection. Default: all share one, as long as the
	// server allows as many concurrent requests on it.
	OwnConnections bool

	// Processes are the ids of the server's processes on this machine, which must run Linux.
	// Default: none; processor time and memory are not measured.
	Processes []int

	// FsyncDir is a directory on the server's disk. Default: none; latencies are not converted to
	// syncs of that disk.
	FsyncDir string

	// Progress is called at the beginning of each step and a few times a second during it, by one
	// goroutine at a time. It must not block. Default: not called.
	Progress func(Progress)
}

// MinDuration is the minimum of Duration: with less, figures are noise.
const MinDuration = 100 * time.Millisecond

// Progress is the progress of a run.
type Progress struct {
	Step, Steps int     // Step counts from 1
	Title       string  // of the step
	Done        float64 // part of the step, from 0 to 1; 0 at its beginning
}

// Measures returns the names of all measures, in the order in which they are taken.
func Measures() []string {
	return []string{"connect", "memory", "get", "patch", "apply", "list", "label", "watch", "create", "crds"}
}

// Check returns an error if the options are invalid. It names them as flags of the command line.
func (o *Options) Check() error {
	for _, name := range o.Measures {
		if !slices.Contains(Measures(), name) {
			return fmt.Errorf("--measure %q is unknown: must be some of %s", name, strings.Join(Measures(), ","))
		}
	}
	if slices.Contains(o.Measures, "memory") && len(o.Processes) == 0 {
		return errors.New("--measure memory needs --pid: set it to the ids of the server's processes")
	}
	if o.Scale != "" && !slices.Contains(Scales(), o.Scale) {
		return fmt.Errorf("--scale %q is unknown: must be small or full", o.Scale)
	}
	if o.Duration != 0 && o.Duration < MinDuration {
		return fmt.Errorf("--duration %v is too short: must be at least %v", o.Duration, MinDuration)
	}
	if len(o.Processes) > 0 && runtime.GOOS != "linux" {
		return fmt.Errorf("--pid needs Linux, but this system is %s", runtime.GOOS)
	}
	for i, pid := range o.Processes {
		if slices.Contains(o.Processes[:i], pid) {
			return fmt.Errorf("--pid %d is set twice: remove one of them", pid)
		}
		if _, err := processes([]int{pid}).use(); err != nil {
			return fmt.Errorf("--pid %d: %w", pid, err)
		}
	}
	if o.FsyncDir != "" {
		if info, err := os.Stat(o.FsyncDir); err != nil {
			return fmt.Errorf("--fsync-dir: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("--fsync-dir %s is not a directory", o.FsyncDir)
		}
	}
	return nil
}

// chosen reports whether a measure is to be taken.
func (o *Options) chosen(name string) bool {
	if len(o.Measures) > 0 {
		return slices.Contains(o.Measures, name)
	}
	return name != "memory" || len(o.Processes) > 0
}
