package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kapok-dev/kapok/node/internal/podnet"

	"golang.org/x/sys/unix"
)

// errMounts is the error of mounts of a process.
var errMounts = errors.New("macOS has no mounts of a single process")

func ownMounts(*syscall.SysProcAttr) error { return errMounts }

func mountHosts(string) error { return errMounts }

// errIsolation is the error of a root directory of a container.
var errIsolation = errors.New("macOS has no namespaces, in which containers have a root directory of their own")

func (*Runtime) probe(context.Context, string) error { return errIsolation }

func becomeInside() (code int, is bool) { return 0, false }

func (*shim) spawnRoot([]*os.File, *syscall.SysProcAttr) (pid int, err error) { return 0, errIsolation }

func (*shim) spawnInside([]string, []*os.File, *syscall.SysProcAttr) (pid int, err error) {
	return 0, errIsolation
}

func (*Runtime) launchShim(context.Context, *Spec, string, *os.File, *os.File) error {
	return errIsolation
}

func (*Runtime) endLauncher() {}

// Network returns an error: macOS has no namespaces.
func (*Runtime) Network(context.Context, podnet.Options) (outside, err error) {
	return nil, errIsolation
}

// Socket returns an error: macOS has no namespaces.
func (*Runtime) Socket(context.Context, podnet.Socket) (*os.File, error) { return nil, errIsolation }

// Leave does nothing: there is no network.
func (*Runtime) Leave(context.Context, string) error { return nil }

// Usage returns nothing: macOS has no /proc.
func (*Runtime) Usage() map[ID]Usage { return nil }

// becomeSubreaper does nothing: macOS has no subreapers.
func becomeSubreaper() {}

// killDescendants does nothing: the process groups have been killed.
func killDescendants() {}

// birth returns the start time of a process, "" if there is none.
func birth(pid int) string {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}

// killMarked kills the process group of a run, if its first process still exists.
func killMarked(_ ID, s started) {
	if s.Pid > 0 && s.Birth != "" && birth(s.Pid) == s.Birth {
		_ = syscall.Kill(-s.Pid, syscall.SIGKILL)
	}
}

// killShim kills the shim of a run, which does not respond: the parent of the first process of the
// container.
func killShim(_ string, s started) {
	if s.Pid <= 0 || s.Birth == "" {
		return
	}
	if p, err := unix.SysctlKinfoProc("kern.proc.pid", s.Pid); err == nil && birth(s.Pid) == s.Birth && p.Eproc.Ppid > 1 {
		_ = syscall.Kill(int(p.Eproc.Ppid), syscall.SIGKILL)
	}
}

func listen(dir *os.Root) (*net.UnixListener, error) {
	_ = dir.Remove(socketName)
	return net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir.Name(), socketName)})
}

func dial(dir *os.Root) (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: filepath.Join(dir.Name(), socketName)})
}
