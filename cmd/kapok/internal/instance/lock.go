package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	lockFile = "instance.lock"
	homeLock = ".lock"
)

// ErrRunning is the error of Lock for an instance that runs.
var ErrRunning = errors.New("already running")

var errHeld = errors.New("the lock is held")

// A Lock is held by the process that runs an instance or deletes it.
type Lock struct{ file *os.File }

// Lock locks an instance, whose directory it creates. It returns ErrRunning if another process
// holds the lock. A process locks an instance at most once at a time, and does not call Locked of
// it, as Unix releases a lock when its process closes any file of that path.
func (i Instance) Lock() (*Lock, error) {
	for {
		if err := os.MkdirAll(i.Dir, 0o700); err != nil {
			return nil, err
		}
		l, err := lockPath(filepath.Join(i.Dir, lockFile))
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("instance %s is %w", i.Name, ErrRunning)
		}
		// A deletion may have moved the file away, between its opening and the lock.
		if err != nil || l.inPlace() {
			return l, err
		}
		l.Release()
	}
}

// Release releases the lock.
func (l *Lock) Release() { _ = l.file.Close() }

// inPlace reports whether the file that is locked still has its path.
func (l *Lock) inPlace() bool {
	locked, err := l.file.Stat()
	if err != nil {
		return false
	}
	at, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(locked, at)
}

func lockPath(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, err
	}
	return &Lock{f}, nil
}

// Locked reports whether a process runs the instance, and its ID; 0 if the system does not tell it,
// as of a process in another container.
func (i Instance) Locked() (id int, locked bool) {
	f, err := os.OpenFile(filepath.Join(i.Dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	return i.holder(f)
}

// homePatience limits the time for which other processes may choose a port.
const homePatience = 10 * time.Second

// exclusively runs a function that no other process runs at the same time.
func (h Home) exclusively(ctx context.Context, do func() error) error {
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, homePatience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		l, err := lockPath(filepath.Join(h.Dir, homeLock))
		if err == nil {
			defer l.Release()
			return do()
		}
		if !errors.Is(err, errHeld) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("lock %s: held by another kapok for %v", filepath.Join(h.Dir, homeLock), homePatience)
		}
	}
}
