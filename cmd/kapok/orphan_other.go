//go:build !windows

package main

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// awaitOrphan waits for the end of the parent, after which another one takes its place, or for ctx.
func awaitOrphan(ctx context.Context) bool {
	parent := os.Getppid()
	if adopted(parent) {
		return true
	}
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for os.Getppid() == parent {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// adopted reports whether the parent is not the process that started this one, which ended before
// the first check. A child is in its parent's session unless it starts its own; processes that
// adopt orphans are usually in another one.
func adopted(parent int) bool {
	own, err := unix.Getsid(0)
	if err != nil || own == os.Getpid() {
		return false
	}
	session, err := unix.Getsid(parent)
	return err == nil && session != own
}
