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

// Options say what is measured, and where.
type Options struct {
	// Config reaches the server. Its limits of requests a second are not obeyed.
	Config *rest.Config

	// Measures are the names of those to take; their order does not matter.
	// Default: all, but for memory if there are no Processes.
	Measures []string

	// Scale is the size of the load. Default Full.
	Scale Scale

	// Duration is how long each measure takes that does not count. Default: that of
	// the scale; at least MinDuration.
	Duration time.Duration

	// OwnConnections gives each worker a connection of its own. Default: all share one,
	// for as long as the server lets it have as many requests under way.
	OwnConnections bool

	// Processes are the ids of the server's processes on this machine, which must be
	// Linux. Default: what the server spends is not measured.
	Processes []int

	// FsyncDir is a directory on the disk of the server. Default: latencies are not
	// told in syncs of that disk.
	FsyncDir string

	// Progress is called, by one goroutine at a time, at the beginning of each step and a
	// few times a second while it lasts. It must not block. Default: not called.
	Progress func(Progress)
}

// MinDuration is the least Duration: below it, figures are noise.
const MinDuration = 100 * time.Millisecond

// Progress is how far a run has come.
type Progress struct {
	Step, Steps int     // Step counts from 1
	Title       string  // of the step
	Done        float64 // part of the step, from 0 to 1; 0 at its beginning
}

// Measures are the names of all measures, in the order in which they are taken.
func Measures() []string {
	return []string{"connect", "memory", "get", "patch", "apply", "list", "label", "watch", "create", "crds"}
}

// Check says what about the options makes no sense, in the words of the command
// line.
func (o *Options) Check() error {
	for _, name := range o.Measures {
		if !slices.Contains(Measures(), name) {
			return fmt.Errorf("--measure %q is not known: want some of %s", name, strings.Join(Measures(), ","))
		}
	}
	if slices.Contains(o.Measures, "memory") && len(o.Processes) == 0 {
		return errors.New("--measure memory needs --pid: whose memory?")
	}
	if o.Scale != "" && !slices.Contains(Scales(), o.Scale) {
		return fmt.Errorf("--scale %q is not known: want small or full", o.Scale)
	}
	if o.Duration != 0 && o.Duration < MinDuration {
		return fmt.Errorf("--duration %v is too short: must be at least %v", o.Duration, MinDuration)
	}
	if len(o.Processes) > 0 && runtime.GOOS != "linux" {
		return fmt.Errorf("--pid needs the /proc of Linux, and this is %s", runtime.GOOS)
	}
	for i, pid := range o.Processes {
		if slices.Contains(o.Processes[:i], pid) {
			return fmt.Errorf("--pid %d is there twice: its use would be counted twice", pid)
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

// chosen says whether a measure is to be taken.
func (o *Options) chosen(name string) bool {
	if len(o.Measures) > 0 {
		return slices.Contains(o.Measures, name)
	}
	return name != "memory" || len(o.Processes) > 0
}
