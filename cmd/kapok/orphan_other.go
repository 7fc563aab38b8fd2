//go:build !windows

package main

import (
	"context"
	"os"
	"time"
)

// awaitOrphan waits for the end of the parent, after which another one takes its place, or for ctx.
func awaitOrphan(ctx context.Context) bool {
	parent := os.Getppid()
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
