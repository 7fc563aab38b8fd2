// Package proc runs containers as processes of this machine, without images, root or a daemon.
//
// # Shims
//
// Each run of a container has a parent of its own, the shim: this program again, which [Main] turns
// into one at its start. The shim starts the container in a session of its own, writes its log,
// starts further commands in it, and records how it ends. Shims do not depend on the program that
// started them: after a crash of that program, Open finds the runs that go on, and the ends of the
// others. Close ends all runs. With Options.Tether, shims end with the program, too.
//
// # Once and only once
//
// A run is a directory DIR/pods/POD/CONTAINER/ATTEMPT with these files:
//
//	spec.json     what runs, written and synced before anything is started
//	lock          is locked as long as the shim lives
//	started.json  process id and start time, synced before Start returns
//	exit.json     how the run has ended
//	log, log.1    the log, in the format of container runtimes
//	s             the socket of the shim
//
// The program takes the lock first and passes it on to the shim with the file descriptor, so that
// there is no moment at which a shim may run and the lock is free. An attempt is never started a
// second time. If a shim is killed, its lock is free and there is no exit.json: the processes that
// it leaves behind are found by the variable KAPOK_CONTAINER in their environments (Linux) or by
// their process group, and killed before exit.json is written.
//
// When the first process of a container has ended, all others are killed, as in a PID namespace. On
// Linux these are all descendants, because the shim is a subreaper; on macOS those of the process
// groups that the shim has started.
//
// # Launcher
//
// Shims of containers with a Root are started by the launcher, DIR/launcher: this program again,
// which has a namespace of users above those of the containers, and the network of pods. There is
// one for each directory. It outlives the program as the shims do, and ends with Close.
//
// # Goroutines
//
// A Runtime has one goroutine for each run that lives, and two for the launcher. Close waits for
// them. Its lock is held neither during file operations nor during a call of Options.Changed.
package proc

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/node/internal/cgroup"
)

// An ID names a run of a container.
type ID struct {
	Pod       string // the UID of the pod
	Container string
	Attempt   int // 0 for the first run
}

// String returns the value of Marker in the environment of the run.
func (id ID) String() string { return id.Pod + "/" + id.Container + "/" + strconv.Itoa(id.Attempt) }

// Marker is the variable in the environment of each process of a container that names its run.
const Marker = "KAPOK_CONTAINER"

func (id ID) validate() error {
	for _, part := range []string{id.Pod, id.Container} {
		if part == "" || part == "." || strings.ContainsAny(part, "/\\\x00") || !filepath.IsLocal(part) {
			return fmt.Errorf("%q cannot be the name of a directory", part)
		}
	}
	if id.Attempt < 0 {
		return fmt.Errorf("attempt %d: must not be negative", id.Attempt)
	}
	return nil
}

// dir returns the directory of the run, below that of the Runtime.
func (id ID) dir() string {
	return filepath.Join("pods", id.Pod, id.Container, strconv.Itoa(id.Attempt))
}

// A Spec describes a run.
type Spec struct {
	ID   ID
	Path string   // the file to execute, absolute
	Args []string // with the name of the program
	Dir  string   // the working directory
	Env  []string
	// Image is the digest of the OCI image of the program, and Reference its name in the status of the
	// container; "" for a program of the machine.
	Image, Reference string
	// Root is the root directory of the container; nil for that of the machine. Path, Dir and a
	// relative name of a program are then paths in it, and "" as Path stands for the first of Args,
	// found by the PATH of Env. It needs what Runtime.Isolates reports.
	Root *Root
	// Address is that of the pod in the network of Runtime.Network, for a container with a Root.
	// Invalid: the container has the network of this machine.
	Address netip.Addr
	// Limits are those of all processes of the container together. They need Runtime.Limit.
	Limits cgroup.Limits
	// Group is the control group of the container, which Start sets.
	Group cgroup.Group
	// Hosts is a file that the container sees as /etc/hosts, absolute; "" for that of the system. It
	// needs what Runtime.Mounts reports.
	Hosts string
	// Terminal gives the container a terminal, Stdin an input that attach writes to. Without it the
	// input is empty.
	Terminal, Stdin, StdinOnce bool
	// Backoff is the time that was waited before this attempt.
	Backoff time.Duration
	// LogBytes is the size at which a log is rotated, LogFiles the number of files. Defaults: 10 MiB,
	// 5.
	LogBytes int64
	LogFiles int
}

// A Run is a run of a container.
type Run struct {
	Spec
	Pid     int       // of the first process
	Started time.Time // zero if it could not be started
	Exit    *Exit     // nil while it runs
}

// An Exit is the end of a run.
type Exit struct {
	Code    int // 128 and the number of the signal, if one has ended it
	Signal  int
	Time    time.Time
	Reason  string // "" for the one that follows from the code
	Message string
}

// A Usage is what a container uses.
type Usage struct {
	CPU    time.Duration // the processor time since its start; less after the end of a process of exec
	Memory int64         // the resident memory, in bytes
	// Started is when the container has started.
	Started time.Time
}

// The reasons of an Exit.
const (
	// StartError is the reason of a run that could not be started.
	StartError = "StartError"
	// Lost is the reason of a run whose shim has been killed.
	Lost = "ContainerStatusUnknown"
	// OutOfMemory is the reason of a run that has ended after the kernel has killed a process of it,
	// because it used more memory than its limit.
	OutOfMemory = "OOMKilled"
)

var (
	// ErrNotRunning is returned for a run that has ended, or does not exist.
	ErrNotRunning = errors.New("the container does not run")
	// ErrUnsupported is returned on systems other than Linux and macOS.
	ErrUnsupported = errors.New("containers as processes need Linux or macOS: this system has no process groups and signals")
	// ErrMain is returned by Open if the program has not called Main.
	ErrMain = errors.New("the program does not call process.Main at the start of its function main")
)

// started is the content of started.json.
type started struct {
	Pid   int
	Birth string // the start time of the process, as the system has it
	Time  time.Time
}
