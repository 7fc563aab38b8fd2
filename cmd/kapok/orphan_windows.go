package main

import (
	"context"
	"os"
)

// awaitOrphan waits for the end of the parent, which may come after that of ctx.
func awaitOrphan(ctx context.Context) bool {
	parent, err := os.FindProcess(os.Getppid())
	if err != nil {
		return true
	}
	_, err = parent.Wait()
	return err == nil && ctx.Err() == nil
}
