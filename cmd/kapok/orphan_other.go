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

// adopted says whether a parent is not the one that has started this process, which was gone before anybody looked. A child is of its
// parent's session, unless it begins its own; those who take in orphans are mostly of another one.
func adopted(parent int) bool {
	own, err := unix.Getsid(0)
	if err != nil || own == os.Getpid() {
		return false
	}
	session, err := unix.Getsid(parent)
	return err == nil && session != own
}
