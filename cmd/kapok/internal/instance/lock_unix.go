//go:build unix

package instance

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock locks a file for this process. Such locks of fcntl have an owner that other processes can
// ask for, unlike those of flock.
func lock(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errHeld
	}
	return err
}

func (i Instance) holder(f *os.File) (id int, locked bool) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l); err != nil || l.Type == unix.F_UNLCK {
		return 0, false
	}
	return max(0, int(l.Pid)), true
}

// stop asks a process to end.
func stop(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
