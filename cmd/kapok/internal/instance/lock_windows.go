package instance

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}

// holder takes the process from the record, as the system does not tell who holds a lock.
func (i Instance) holder(f *os.File) (id int, locked bool) {
	if !errors.Is(lock(f), errHeld) {
		return 0, false
	}
	if r, err := i.Record(); err == nil && r.Process != nil {
		id = r.Process.ID
	}
	return id, true
}

// stop ends a process: there is no signal that asks for it. The store is as after a crash.
func stop(p *os.Process) error { return p.Kill() }
